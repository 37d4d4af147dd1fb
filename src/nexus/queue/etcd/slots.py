"""Which slots a queue has, and what to do with keys that lie beside them.

A slot is registered before its first message, so whoever reads the register knows where to look.
Other programs put keys anywhere below the prefix. Those lie in the gaps between the slots, which
are empty else and cost little to ask for: a key with the shape of a slot's registers that slot, and
any other is adopted, which is: moved into a slot, with its value and its lease.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple
from zlib import crc32

import orjson

from nexus.etcd import (
    Ambiguous,
    Client,
    Compare,
    Delete,
    Get,
    Keys,
    KeyValue,
    LeaseNotFound,
    Operation,
    Put,
    RequestTooLarge,
    absent,
    mod_revision,
)
from nexus.queue.errors import QueueError
from nexus.queue.etcd.counts import Count, Tally
from nexus.queue.etcd.layout import Layout, Slot, readings_in, slot_of, timestamp_ns_of

DEFAULT_PARTITIONS: Final = 12
DEFAULT_CLUSTER: Final = "local-cluster"
ADOPTED: Final = "adopted"
_LISTED: Final = 500
_ADOPTED_AT_ONCE: Final = 32  # so many of the largest values still fit an answer
_IDLE_ROUNDS: Final = 5


async def partitions_of(client: Client, layout: Layout) -> int | None:
    """How many partitions the queue was made with; None when nobody has made it."""
    item = await client.get(layout.meta("config"))
    return None if item is None else _partitions(item)


async def ensure_config(client: Client, layout: Layout, partitions: int) -> int:
    """The queue's partitions: as it was made, or as it is made now."""
    key = layout.meta("config")
    value = orjson.dumps({"partitions": partitions})
    while True:
        try:
            done = await client.txn(
                when=[absent(key)], then=[Put(key, value)], otherwise=[Get(Keys(key))]
            )
        except Ambiguous:
            continue
        return partitions if done.succeeded else _partitions(done.got(0).items[0])


async def known_slots(client: Client, layout: Layout) -> tuple[Slot, ...]:
    """Every slot that ever had a message, by cluster and partition."""
    listed = await client.range(Get(layout.metas("slots"), keys_only=True))
    return tuple(sorted(_registered(layout, listed.items)))


async def register(client: Client, layout: Layout, slots: Iterable[Slot]) -> None:
    """Make slots known; those that are known already stay as they are."""
    missing = sorted(set(slots) - set(await known_slots(client, layout)))
    at_once = (await client.limits()).operations
    for start in range(0, len(missing), at_once):
        puts = [Put(layout.meta("slots", str(slot))) for slot in missing[start : start + at_once]]
        while True:
            try:
                await client.txn(then=puts)
            except Ambiguous:  # to put them twice is the same as once
                continue
            break


def gaps(layout: Layout, slots: Iterable[Slot]) -> list[Keys]:
    """All below the prefix that no slot holds, in order."""
    ranges = sorted(layout.slot(slot) for slot in slots)
    start, end = layout.messages
    edges = [Keys(b"", start), *ranges, Keys(end, b"")]
    return [Keys(a.end, b.start) for a, b in pairwise(edges) if a.end < b.start]


class Probed(NamedTuple):
    """What a probe found beside the slots that were known."""

    slots: tuple[Slot, ...]  # all that are known now
    registered: tuple[Slot, ...]
    adopted: int
    left: int  # keys that fit nowhere; they stay where they are


async def probe(client: Client, layout: Layout, *, cluster: str = DEFAULT_CLUSTER) -> Probed:
    """Look into the gaps, register slots and adopt loose keys until nothing is left of them.

    `cluster` is where keys go that name none. Any number of processes may do this at a time.
    """
    return await _Probe(client, layout, cluster).run()


class _Probe:
    def __init__(self, client: Client, layout: Layout, cluster: str) -> None:
        self._client, self._layout, self._cluster = client, layout, cluster
        self._before: set[Slot] = set()
        self._adopted = 0
        self._misfits: set[bytes] = set()

    async def run(self) -> Probed:
        known = set(await known_slots(self._client, self._layout))
        self._before = set(known)
        idle = 0  # rounds without progress: others were faster, or a key changes all the time
        while idle < _IDLE_ROUNDS and (found := await self._beside(known)):
            had = len(known) + self._adopted
            homes = {key: self._layout.slot_of_key(key) for key in found}
            shaped = {slot for slot in homes.values() if slot is not None}
            loose = [key for key, slot in homes.items() if slot is None]
            if shaped:
                await register(self._client, self._layout, shaped)
            await self._adopt(loose)
            known |= set(await known_slots(self._client, self._layout))
            idle = 0 if len(known) + self._adopted > had else idle + 1
        return Probed(
            tuple(sorted(known)),
            tuple(sorted(known - self._before)),
            self._adopted,
            len(self._misfits),
        )

    async def _beside(self, known: set[Slot]) -> list[bytes]:
        """Some of the keys in the gaps."""
        asked = gaps(self._layout, known)
        at_once = (await self._client.limits()).operations
        found: list[bytes] = []
        for start in range(0, len(asked), at_once):
            some = asked[start : start + at_once]
            limit = _LISTED + len(self._misfits)
            done = await self._client.txn(
                then=[Get(gap, limit=limit, keys_only=True) for gap in some]
            )
            for number in range(len(some)):
                found += [item.key for item in done.got(number).items]
        return [key for key in found if key not in self._misfits]

    async def _adopt(self, loose: Sequence[bytes]) -> None:
        if not loose:
            return
        partitions = await ensure_config(self._client, self._layout, DEFAULT_PARTITIONS)
        for start in range(0, len(loose), _ADOPTED_AT_ONCE):
            moves = await self._moves(loose[start : start + _ADOPTED_AT_ONCE], partitions)
            await register(self._client, self._layout, {move.slot for move in moves})
            await self._move_all(moves)

    async def _moves(self, keys: Sequence[bytes], partitions: int) -> list[_Move]:
        done = await self._client.txn(then=[Get(Keys(key)) for key in keys])
        items = [item for number in range(len(keys)) for item in done.got(number).items]
        moves = [_move(self._layout, item, self._cluster, partitions) for item in items]
        if not moves:
            return []
        there = await self._client.txn(then=[Get(Keys(m.target), keys_only=True) for m in moves])
        taken = {item.key for number in range(len(moves)) for item in there.got(number).items}
        return list(_apart(moves, taken))

    async def _move_all(self, moves: Sequence[_Move]) -> None:
        """In transactions that fit; what has changed meanwhile is found again by the next round."""
        limits = await self._client.limits()
        at_once = max(1, (limits.operations - 1) // 2)
        batch: list[_Move] = []
        size = 0
        for move in moves:
            cost = len(move.item.value) + 2 * len(move.item.key) + len(move.target) + 200
            if batch and (len(batch) >= at_once or size + cost > limits.request_bytes - 4096):
                await self._move(batch)
                batch, size = [], 0
            batch.append(move)
            size += cost
        if batch:
            await self._move(batch)

    async def _move(self, moves: Sequence[_Move]) -> None:
        """One transaction; it rings the bell for those that never rang one."""
        tally = Tally(self._layout.meta("bells", ADOPTED, "0"), ADOPTED)
        tally.resume(await self._client.get(tally.key))
        messages = sum(readings_in(move.target) for move in moves)
        step = tally.step(Count(len(moves), messages), time.time_ns() // 1_000_000)
        when: list[Compare] = [step.when]
        then: list[Operation] = [step.put]
        for move in moves:
            when += [mod_revision(move.item.key).equals(move.item.mod_revision)]
            when += [absent(move.target)]
            then += [Delete(Keys(move.item.key))]
            then += [Put(move.target, move.item.value, move.item.lease)]
        try:
            done = await self._client.txn(when=when, then=then)
        except (Ambiguous, LeaseNotFound):
            return
        except RequestTooLarge:
            self._misfits |= {move.item.key for move in moves}
            return
        self._adopted += len(moves) if done.succeeded else 0


class _Move(NamedTuple):
    """A loose key, and where it goes."""

    item: KeyValue
    slot: Slot
    target: bytes


def _move(layout: Layout, item: KeyValue, cluster: str, partitions: int) -> _Move:
    path = item.key[len(layout.messages.start) :]
    first, slash, rest = path.partition(b"/")
    named = first.decode("utf-8", "ignore") if slash else ""
    # A cluster that would not come out as it went in is none.
    is_cluster = bool(named) and named.encode() == first and named.isprintable()
    name = (rest if is_cluster else path).strip(b"/").replace(b"/", b"-") or b"-"
    slot = Slot(named if is_cluster else cluster, crc32(_about(name)) % partitions)
    return _Move(item, slot, layout.slot(slot).start + name)


def _apart(moves: Iterable[_Move], taken: set[bytes]) -> Iterator[_Move]:
    """The same moves, none of them to a name that is taken: it gets digits more at its end."""
    for move in moves:
        target = move.target
        if target in taken:
            target += f"{move.item.mod_revision}{crc32(move.item.key):010d}".encode()
        taken.add(target)
        yield move._replace(target=target)


def _about(name: bytes) -> bytes:
    """The part of a name that says which GPU it is about: its messages stay together."""
    if timestamp_ns_of(name) is None:
        return name
    return name.partition(b"_")[2].rpartition(b"_")[0]


def _registered(layout: Layout, items: Iterable[KeyValue]) -> Iterable[Slot]:
    start = len(layout.metas("slots").start)
    for item in items:
        name = item.key[start:].decode("utf-8", "replace")
        cluster, _, partition = name.rpartition("/")
        if cluster and "/" not in cluster and partition.isascii() and partition.isdigit():
            yield slot_of(name)


def _partitions(item: KeyValue) -> int:
    try:
        partitions = int(orjson.loads(item.value)["partitions"])
    except (ValueError, TypeError, KeyError):
        partitions = 0
    if not 0 < partitions <= 10_000:
        raise QueueError(
            f'etcd {item.key.decode()}: found {item.value[:100]!r}, expected {{"partitions": 12}};'
            " put it right with etcdctl"
        )
    return partitions
