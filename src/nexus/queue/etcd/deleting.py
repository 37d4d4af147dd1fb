"""Taking messages out of a queue once every store has them.

Runs of processed keys are deleted by range, in transactions that compare the leader's token and
that nothing new lies in the ranges. A message that came late into one fails the compare: the names
are listed again, and it is left where it is. What is taken is counted in the same transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from nexus.etcd import (
    Ambiguous,
    Client,
    Compare,
    Delete,
    Fence,
    Fenced,
    Get,
    GetResult,
    Keys,
    KeyValue,
    NoSpace,
    Operation,
    TxnResult,
    mod_revision,
)
from nexus.queue.etcd.counts import Count, Step, Tally
from nexus.queue.etcd.identity import is_queue, refuse_another
from nexus.queue.etcd.layout import Layout, Slot
from nexus.queue.etcd.positions import Position, Positions, all_have

LIST_KEYS: Final = 10_000
_ROUNDS: Final = 5
_OTHERS: Final = 3  # compares and operations beside those of the runs


class Run(NamedTuple):
    """Keys one after the other, all of them processed."""

    keys: Keys
    holds: Count


class Taken(NamedTuple):
    """What was taken out, and how often something that came late was in the way."""

    took: Count = Count()
    conflicts: int = 0

    def plus(self, other: Taken) -> Taken:
        return Taken(self.took.plus(other.took), self.conflicts + other.conflicts)


def runs_of(items: Iterable[KeyValue], is_done: Callable[[KeyValue], bool]) -> list[Run]:
    """The longest runs of keys that are done, between keys that are not."""
    runs: list[Run] = []
    run: list[bytes] = []
    for item in items:
        if is_done(item):
            run.append(item.key)
        elif run:
            runs.append(_run(run))
            run = []
    return [*runs, _run(run)] if run else runs


def _run(keys: Sequence[bytes]) -> Run:
    return Run(Keys(keys[0], keys[-1] + b"\0"), Count.of(keys))


class Deleter:
    """Takes out what lies before the places that all stores have come to; for who leads."""

    def __init__(self, client: Client, layout: Layout, name: str) -> None:
        self._client, self._layout = client, layout
        self._tally = Tally(layout.meta("taken", name), name)
        self._resumed = False
        self._uncounted = Count()  # taken while etcd took no puts
        self._cleared: dict[Slot, tuple[Position, ...]] = {}
        self._same = is_queue(layout, "")

    async def clear(
        self, slots: Iterable[Slot], stores: Sequence[Positions], fence: Fence
    ) -> Taken:
        """Delete all that every store has; Fenced when another leads by now, or QueueAnew."""
        await self._refuse_another_queue(stores)
        if not self._resumed:
            self._tally.resume(await self._client.get(self._tally.key))
            self._resumed = True
        taken = Taken()
        for slot in slots:
            places = tuple(store.of(slot) for store in stores)
            if self._cleared.get(slot) != places:
                floor = min(store.floor for store in stores)
                taken = taken.plus(await self._clear(slot, floor, places, fence))
                self._cleared[slot] = places
        return taken

    async def _refuse_another_queue(self, stores: Sequence[Positions]) -> None:
        found = await self._client.range(Get(Keys(self._layout.meta("id"))))
        queue = "" if found.first is None else found.first.value.decode(errors="replace")
        for store in stores:
            refuse_another(self._layout, queue, found.revision, store)
        self._same = is_queue(self._layout, queue)

    async def _clear(
        self, slot: Slot, floor: int, places: tuple[Position, ...], fence: Fence
    ) -> Taken:
        path = self._layout.slot(slot)

        def is_done(item: KeyValue) -> bool:
            name = item.key[len(path.start) :]
            return item.mod_revision > floor and all_have(places, name, item.mod_revision)

        taken = Taken()
        keys, rounds = self._asked(slot, places), 0
        while True:
            page = await self._client.range(Get(keys, LIST_KEYS, keys_only=True))
            done, whole = await self._take(runs_of(page.items, is_done), page.revision, fence)
            taken = taken.plus(done)
            if not whole and rounds < _ROUNDS:
                rounds += 1  # something came late: look again
                continue
            if not page.more or not page.items:
                return taken
            keys, rounds = keys.after(page.items[-1].key), 0

    def _asked(self, slot: Slot, places: tuple[Position, ...]) -> Keys:
        """Where processed keys can be: in mid-sweep not behind it, once the last one is cleared."""
        start, end = self._layout.slot(slot)
        before = {place.done for place in self._cleared.get(slot, ())}
        if all(place.sweep and {place.done} == before for place in places):
            return Keys(start, start + max(place.name for place in places) + b"\0")
        return Keys(start, end)

    async def _take(self, runs: Sequence[Run], revision: int, fence: Fence) -> tuple[Taken, bool]:
        """Delete the runs as they were at a revision; whether none of them had changed."""
        at_once = (await self._client.limits()).operations - _OTHERS
        taken = Taken()
        for start in range(0, len(runs), at_once):
            some = runs[start : start + at_once]
            if not await self._delete(some, revision, fence):
                return taken.plus(Taken(conflicts=1)), False
            taken = taken.plus(Taken(_sum(some)))
        return taken, True

    async def _delete(self, runs: Sequence[Run], revision: int, fence: Fence) -> bool:
        added = _sum(runs).plus(self._uncounted)
        unchanged = [mod_revision(run.keys).less(revision + 1) for run in runs]
        deletes = [Delete(run.keys) for run in runs]
        while True:
            step = self._tally.step(added, time.time_ns() // 1_000_000)
            try:
                done = await self._counted(step, fence, unchanged, deletes)
            except NoSpace:
                return await self._without_puts(_sum(runs), fence, unchanged, deletes)
            if done.succeeded:
                self._tally.done(step, done.revision)
                self._uncounted = Count()
                return True
            _refuse_another(done.got(0), fence)
            before = self._tally.transaction, self._tally.count
            if self._tally.was_done(step, done.got(1).first):
                self._uncounted = Count()
                return True
            if before == (self._tally.transaction, self._tally.count):
                return False  # the tally stands as it did: a range has changed

    async def _counted(
        self, step: Step, fence: Fence, unchanged: Sequence[Compare], deletes: Sequence[Operation]
    ) -> TxnResult:
        while True:
            try:
                return await self._client.txn(
                    when=[fence.holds(), self._same, step.when, *unchanged],
                    then=[step.put, *deletes],
                    otherwise=[Get(Keys(fence.key), keys_only=True), self._tally.get],
                )
            except Ambiguous:  # with its step it can happen only once
                continue

    async def _without_puts(
        self, count: Count, fence: Fence, unchanged: Sequence[Compare], deletes: Sequence[Operation]
    ) -> bool:
        """At its quota etcd takes deletes, and nothing else; the count follows when it can."""
        while True:
            try:
                done = await self._client.txn(
                    when=[fence.holds(), self._same, *unchanged],
                    then=deletes,
                    otherwise=[Get(Keys(fence.key), keys_only=True)],
                )
            except Ambiguous:  # nothing is deleted twice
                continue
            break
        if not done.succeeded:
            _refuse_another(done.got(0), fence)
            return False
        self._uncounted = self._uncounted.plus(count)
        return True


def _refuse_another(holder: GetResult, fence: Fence) -> None:
    found = holder.first
    if found is None or found.create_revision != fence.token:
        raise Fenced(f"etcd {fence.key.decode()}: another collector leads, or nobody does")


def _sum(runs: Iterable[Run]) -> Count:
    count = Count()
    for run in runs:
        count = count.plus(run.holds)
    return count
