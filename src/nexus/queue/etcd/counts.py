"""How much went in and out of a queue, by counters that change in the transactions they count.

Whoever publishes keeps a bell, whoever takes messages out a `taken` entry; both are tallies: the
running totals of one process. A key that was published, was not taken and does not wait has
expired. Messages are counted as their keys say (`readings_in`), so that nobody need read a value
to count it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Self

import orjson

from nexus.etcd import (
    Client,
    Compare,
    Delete,
    Fence,
    Get,
    Keys,
    KeyValue,
    Operation,
    Put,
    mod_revision,
)
from nexus.queue.etcd.layout import Layout, Slot, readings_in

FOLDED: Final = "folded"
IDLE_MS: Final = 24 * 3_600_000  # whoever has counted nothing for so long is taken to be gone
_FOLDED_AT_ONCE: Final = 50


class Count(NamedTuple):
    """Keys, and the messages in them."""

    keys: int = 0
    messages: int = 0

    @classmethod
    def of(cls, keys: Sequence[bytes]) -> Self:
        """What these keys say of themselves."""
        return cls(len(keys), sum(map(readings_in, keys)))

    def plus(self, other: Count) -> Count:
        return Count(self.keys + other.keys, self.messages + other.messages)


class Entry(NamedTuple):
    """A tally as it stands in etcd."""

    key: bytes
    total: Count
    transaction: int
    at_ms: int
    name: str
    by: str  # which tally wrote it last
    revision: int


class Step(NamedTuple):
    """What a transaction that counts carries: a condition, and the new totals.

    The condition makes it safe to send again: it can happen only once.
    """

    when: Compare
    put: Put
    total: Count
    transaction: int


class Tally:
    """One process's totals, under a key that nobody else writes at the same time.

        step = tally.step(Count.of(keys), now_ms)
        done = await client.txn(when=[step.when, …], then=[step.put, …], otherwise=[tally.get])
        if done.succeeded:
            tally.done(step, done.revision)
        elif tally.was_done(step, done.got(0).first):
            …  # an earlier attempt, whose answer was lost, had happened

    One transaction after the other. After `Ambiguous` the same one, with the same step, is sent
    again until it is answered.
    """

    def __init__(self, key: bytes, name: str = "") -> None:
        self.key, self.name = key, name
        self._by = secrets.token_hex(4)
        self.count = Count()
        self.transaction = 0
        self._revision = 0  # when the key was last put; 0 before

    @property
    def get(self) -> Get:
        """For the other branch of the transaction: how the tally stands."""
        return Get(Keys(self.key))

    def resume(self, found: KeyValue | None) -> None:
        """Go on from what is there, also if another process left it."""
        if found is not None:
            entry = entry_of(found)
            self.count, self.transaction = entry.total, entry.transaction
            self._revision = found.mod_revision

    def step(self, added: Count, now_ms: int) -> Step:
        """The next transaction's part."""
        total, transaction = self.count.plus(added), self.transaction + 1
        return Step(
            mod_revision(self.key).equals(self._revision),
            Put(self.key, _encoded(total, transaction, now_ms, self.name, self._by)),
            total,
            transaction,
        )

    def done(self, step: Step, revision: int) -> None:
        """The transaction happened."""
        self.count, self.transaction, self._revision = step.total, step.transaction, revision

    def was_done(self, step: Step, found: KeyValue | None) -> bool:
        """Whether the transaction had happened before, as the key that was found tells.

        If not, the tally has caught up with what is there: make a new step.
        """
        if found is None:  # folded, or etcd was made anew: begin again
            self.count, self._revision = Count(), 0
            return False
        entry = entry_of(found)
        if entry.by == self._by and entry.transaction >= step.transaction:
            self.done(step, found.mod_revision)
            return True
        self.resume(found)
        return False


class Totals(NamedTuple):
    """All of a queue's counters at one revision.

    `waiting` also counts keys that other programs put and nobody has adopted yet. Messages that
    they put right into a slot are in nobody's `published`, so they hide as many expired ones.
    """

    revision: int
    published: Count
    taken: Count
    waiting: int  # keys

    @property
    def expired(self) -> int:
        """Keys whose time was up before anybody took them."""
        return max(0, self.published.keys - self.taken.keys - self.waiting)


async def totals(client: Client, layout: Layout) -> Totals:
    """The counters now. Costs etcd a walk over the names of all that waits."""
    done = await client.txn(
        then=[
            Get(layout.metas("bells")),
            Get(layout.metas("taken")),
            Get(layout.messages, count_only=True),
        ]
    )
    return Totals(
        done.revision,
        sum_of(map(entry_of, done.got(0).items)),
        sum_of(map(entry_of, done.got(1).items)),
        done.got(2).total,
    )


class Depth(NamedTuple):
    """What waits in a slot; `oldest` is the first key, None when it is empty."""

    slot: Slot
    keys: int
    oldest: bytes | None


async def depths(client: Client, layout: Layout, slots: Sequence[Slot]) -> list[Depth]:
    """How much waits in each slot, and since when, as the keys' names tell."""
    found: list[Depth] = []
    at_once = (await client.limits()).operations
    for start in range(0, len(slots), at_once):
        some = slots[start : start + at_once]
        done = await client.txn(then=[Get(layout.slot(s), limit=1, keys_only=True) for s in some])
        for number, slot in enumerate(some):
            got = done.got(number)
            found.append(Depth(slot, got.total, got.first.key if got.first else None))
    return found


async def fold(
    client: Client,
    layout: Layout,
    now_ms: int,
    *,
    fence: Fence | None = None,
    idle_ms: int = IDLE_MS,
) -> int:
    """Put the tallies of processes that are gone into one; how many went.

    A process that comes back after all notices, and begins a new one.
    """
    gone = 0
    for kind, target in (
        (layout.metas("bells"), layout.meta("bells", FOLDED, "0")),
        (layout.metas("taken"), layout.meta("taken", FOLDED)),
    ):
        entries = [entry_of(item) for item in (await client.range(Get(kind))).items]
        idle = [e for e in entries if e.key != target and now_ms - e.at_ms > idle_ms]
        for start in range(0, len(idle), _FOLDED_AT_ONCE):
            gone += await _fold(client, target, idle[start : start + _FOLDED_AT_ONCE], fence)
    return gone


async def _fold(client: Client, target: bytes, idle: list[Entry], fence: Fence | None) -> int:
    """All of them, or none when one of them has changed meanwhile. Repeated, it does nothing."""
    present = await client.get(target)
    so_far = entry_of(present) if present else Entry(target, Count(), 0, 0, FOLDED, "", 0)
    whole = sum_of([so_far, *idle])
    newest_ms = max(entry.at_ms for entry in (so_far, *idle))
    put = Put(target, _encoded(whole, so_far.transaction + 1, newest_ms, FOLDED, ""))
    deletes: list[Operation] = [Delete(Keys(entry.key)) for entry in idle]
    unchanged = [mod_revision(e.key).equals(e.revision) for e in (so_far, *idle)]
    held = [] if fence is None else [fence.holds()]
    done = await client.txn(when=[*held, *unchanged], then=[put, *deletes])
    return len(idle) if done.succeeded else 0


def sum_of(entries: Iterable[Entry]) -> Count:
    whole = Count()
    for entry in entries:
        whole = whole.plus(entry.total)
    return whole


def entry_of(item: KeyValue) -> Entry:
    """A tally that was read; what is no tally counts nothing."""
    try:
        said = orjson.loads(item.value)
        return Entry(
            item.key,
            Count(int(said["keys"]), int(said["messages"])),
            int(said.get("transaction", 0)),
            int(said.get("at", 0)),
            str(said.get("name", "")),
            str(said.get("by", "")),
            item.mod_revision,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return Entry(item.key, Count(), 0, 0, "", "", item.mod_revision)


def _encoded(total: Count, transaction: int, at_ms: int, name: str, by: str) -> bytes:
    return orjson.dumps(
        {
            "transaction": transaction,
            "keys": total.keys,
            "messages": total.messages,
            "at": at_ms,
            "name": name,
            "by": by,
        }
    )
