"""Puts what is new into a store in etcd, and nothing that is there already.

Every transaction compares the writer's token, so that a writer that was replaced without noticing
puts nothing; and that its keys are absent, so that what was stored first stays and a transaction
whose answer was lost can simply be sent again. Keys that follow one another are compared as one
range, which costs etcd less; only where that is not empty, each key by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from nexus.etcd import (
    Ambiguous,
    Client,
    Compare,
    Fence,
    Get,
    Keys,
    Limits,
    Operation,
    Put,
    TxnResult,
    absent,
)
from nexus.etcd.errors import Fenced

T = TypeVar("T")
LANES: Final = 4  # transactions on their way at the same time
_AROUND_BYTES: Final = 24  # of a put in a request, beside its key and value
_ROOM_BYTES: Final = 64 << 10  # for compares, and what goes with a transaction
_SENDINGS: Final = 5


class Item(NamedTuple):
    """A key and what it shall hold."""

    key: bytes
    value: bytes


class Beside(NamedTuple):
    """What else a transaction does, and on which conditions."""

    when: tuple[Compare, ...] = ()
    then: tuple[Operation, ...] = ()

    @property
    def operations(self) -> int:
        return max(len(self.when), len(self.then))


class Told(NamedTuple):
    """What became of some items: `done` is False where a condition beside them did not hold."""

    new: int = 0
    there: int = 0
    done: bool = True
    revision: int = 0  # of the last transaction that was made

    def plus(self, other: Told) -> Told:
        return Told(
            self.new + other.new,
            self.there + other.there,
            self.done and other.done,
            max(self.revision, other.revision),
        )


NOTHING: Final = Beside()


def portions(items: Sequence[Item], limits: Limits, beside: int = 0) -> list[Sequence[Item]]:
    """The items in parts that a transaction takes, with so many operations beside them."""
    most = max(limits.operations - 1 - beside, 1)
    room = limits.request_bytes - _ROOM_BYTES
    parts: list[Sequence[Item]] = []
    start = size = 0
    for at, item in enumerate(items):
        more = len(item.key) + len(item.value) + _AROUND_BYTES
        if at > start and (at - start >= most or size + more > room):
            parts.append(items[start:at])
            start, size = at, 0
        size += more
    return [*parts, items[start:]] if start < len(items) else parts


def runs(items: Iterable[Item]) -> list[Keys]:
    """The ranges that sorted items lie in, of one path each."""
    found: list[list[bytes]] = []
    path = None
    for item in items:
        here = item.key.rpartition(b"/")[0]
        if here != path:
            found.append([item.key, item.key])
            path = here
        found[-1][1] = item.key
    return [Keys(first) if first == last else Keys(first, last + b"\0") for first, last in found]


async def put_many(client: Client, fence: Fence, items: Sequence[Item]) -> Told:
    """Put those of the items that are not there, in as many transactions as it takes.

    Items are sorted by key, and no key is there twice.
    """
    parts = portions(items, await client.limits())
    return sum_of(await in_lanes(put_new(client, fence, part) for part in parts))


async def put_new(
    client: Client, fence: Fence, items: Sequence[Item], beside: Beside = NOTHING
) -> Told:
    """One portion in one transaction, and what goes with it.

    Where a condition of `beside` does not hold, nothing was put at all. Fenced when another
    writes to the store by now.
    """
    rest, conditions = items, [absent(run) for run in runs(items)]
    one_by_one = False
    while rest or beside.then:
        puts = [Put(item.key, item.value) for item in rest]
        when, then = [*conditions, *beside.when], [*puts, *beside.then]
        if revision := await write(client, fence, then, when):
            return Told(len(rest), len(items) - len(rest), revision=revision)
        found = await _present(client, items)
        left = [item for item in items if item.key not in found]
        if one_by_one and len(left) == len(rest) and beside.when:
            return Told(0, len(items) - len(rest), done=False)
        rest, conditions, one_by_one = left, [absent(item.key) for item in left], True
    return Told(0, len(items))


def sum_of(told: Iterable[Told]) -> Told:
    whole = Told()
    for each in told:
        whole = whole.plus(each)
    return whole


async def write(
    client: Client, fence: Fence, then: Sequence[Operation], when: Sequence[Compare] = ()
) -> int:
    """Write as the holder of a token; the revision, or 0 where a condition did not hold.

    It is sent again when its answer is lost, so it must be one that does no harm twice.
    """
    done = await _answer(client, fence, when, then)
    if done.succeeded:
        return done.revision
    holder = done.got(0).first
    if holder is None or holder.create_revision != fence.token:
        raise Fenced(f"{fence.key.decode(errors='replace')}: another has taken over")
    return 0


async def _answer(
    client: Client, fence: Fence, when: Sequence[Compare], then: Sequence[Operation]
) -> TxnResult:
    for sending in range(_SENDINGS):
        try:
            return await client.txn(
                when=[fence.holds(), *when],
                then=then,
                otherwise=[Get(Keys(fence.key), keys_only=True)],
            )
        except Ambiguous:
            if sending == _SENDINGS - 1:
                raise
    raise AssertionError  # the loop returns or raises


async def _present(client: Client, items: Sequence[Item]) -> set[bytes]:
    """Which of the keys are there."""
    at_once = (await client.limits()).operations
    found: set[bytes] = set()
    for start in range(0, len(items), at_once):
        some = items[start : start + at_once]
        done = await client.txn(then=[Get(Keys(item.key), keys_only=True) for item in some])
        found |= {got.key for n in range(len(some)) if (got := done.got(n).first) is not None}
    return found


async def in_lanes(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All of it, some at a time; the first error ends the rest."""
    gate = asyncio.Semaphore(LANES)

    async def one(each: Coroutine[Any, Any, T]) -> T:
        async with gate:
            return await each

    tasks = [asyncio.ensure_future(one(each)) for each in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
