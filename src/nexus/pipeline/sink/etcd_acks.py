"""Takes messages out of a queue in etcd in the transactions that store their readings.

The readings of a chunk of messages go into as many transactions as they need. All but the last
only put, which can be repeated; the last puts the rest, deletes the messages and counts them. So
a message that is gone is stored, and one that is not gone is read again and changes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from nexus.etcd import Client, Compare, Delete, Fence, Get, Keys, Operation, mod_revision
from nexus.etcd.errors import Fenced
from nexus.queue.etcd.counts import Count, Tally
from nexus.store.etcd.writing import Beside, Item, Told, portions, put_new

_BESIDE: Final = 5  # conditions that go with the puts of a transaction, at most
_TRIES: Final = 10
_LIST_KEYS: Final = 10_000


class Ack(NamedTuple):
    """Messages whose readings have all come: their keys in order, as of a revision."""

    keys: tuple[bytes, ...]
    revision: int
    low: int  # they were put in these revisions, as their readings tell; 0 where none does
    high: int

    @property
    def range(self) -> Keys:
        return Keys(self.keys[0], self.keys[-1] + b"\0")


def ack_of(text: bytes, offsets: tuple[int, int]) -> Ack:
    """What the source says after the rows of a chunk, which stood at these offsets."""
    said = json.loads(text)
    keys = tuple(key.encode(errors="surrogateescape") for key in said["keys"])
    return Ack(keys, int(said["revision"]), *offsets)


class Taker:
    """Stores chunks and takes their messages out, one after the other."""

    def __init__(self, client: Client, store: Fence, queue: Fence | None, tally: Tally) -> None:
        self._client = client
        self._store = store
        self._queue = queue
        self._tally = tally

    async def take(self, items: Sequence[Item], ack: Ack) -> Told:
        """Store what is new of a chunk, and take its messages out.

        Fenced when another writes to the store, or leads the collectors of the queue.
        """
        *ahead, last = portions(items, await self._client.limits(), _BESIDE) or [()]
        told = Told()
        for part in ahead:
            told = told.plus(await put_new(self._client, self._store, part))
        return told.plus(await self._last(last, ack))

    async def _last(self, items: Sequence[Item], ack: Ack) -> Told:
        """In one step where nothing else lies between the messages, otherwise one by one."""
        if ack.low:
            puts = mod_revision(ack.range)
            only_these = (puts.greater(ack.low - 1), puts.less(ack.high + 1))
            told = await self._step(items, ack.keys, only_these, [Delete(ack.range)])
            if told is not None:
                return told
        told = await put_new(self._client, self._store, items)
        await self._one_by_one(ack)
        return told

    async def _one_by_one(self, ack: Ack) -> None:
        at_once = (await self._client.limits()).operations - _BESIDE
        there = await self._there(ack)
        for start in range(0, len(there), at_once):
            some = there[start : start + at_once]
            same = tuple(mod_revision(key).equals(at) for key, at in some)
            keys = [key for key, _ in some]
            # One that is gone by now was taken by a twin of this task: it was stored as well.
            if await self._step((), keys, same, [Delete(Keys(key)) for key in keys]) is None:
                await self._one_by_one(ack)
                return

    async def _there(self, ack: Ack) -> list[tuple[bytes, int]]:
        """Those of the messages that are there, and when they were put."""
        wanted = set(ack.keys)
        found: list[tuple[bytes, int]] = []
        get: Get | None = Get(ack.range, limit=_LIST_KEYS, keys_only=True)
        while get is not None:
            page = await self._client.range(get)
            found += [
                (item.key, item.mod_revision)
                for item in page.items
                if item.key in wanted and item.mod_revision <= ack.revision
            ]
            rest = page.more and page.items
            get = get._replace(keys=get.keys.after(page.items[-1].key)) if rest else None
        return found

    async def _step(
        self,
        items: Sequence[Item],
        taken: Sequence[bytes],
        when: tuple[Compare, ...],
        then: Sequence[Operation],
    ) -> Told | None:
        """Put, delete and count at once; None where a condition did not hold."""
        led = () if self._queue is None else (self._queue.holds(),)
        for _ in range(_TRIES):
            step = self._tally.step(Count.of(taken), time.time_ns() // 1_000_000)
            beside = Beside((*led, step.when, *when), (*then, step.put))
            told = await put_new(self._client, self._store, items, beside)
            if told.done:
                self._tally.done(step, told.revision)
                return told
            await self._check_led()
            found = await self._client.get(self._tally.key)
            if (found.mod_revision if found else 0) == step.when.operand:
                return None
            if self._tally.was_done(step, found):
                return told._replace(done=True)
        return None

    async def _check_led(self) -> None:
        if self._queue is None:
            return
        leader = await self._client.get(self._queue.key)
        if leader is None or leader.create_revision != self._queue.token:
            raise Fenced(f"{self._queue.key.decode(errors='replace')}: another has taken over")
