"""Who works on which slot: shared out evenly between the workers that are there.

A worker is there by a leased key, and owns a slot by another, made only where there is none. The
revision that made an owner's key is its token: every write of the owner compares it. So two
workers may for a moment disagree on who should own a slot, never on who does. A slot that
collectors lead is no worker's, and the other way round.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from nexus.etcd import (
    Ambiguous,
    Client,
    Compare,
    Fence,
    Get,
    GetResult,
    Keys,
    KeyValue,
    Lease,
    LeaseLost,
    LeaseNotFound,
    Put,
    absent,
    claim,
    mod_revision,
    release,
)
from nexus.queue.etcd.layout import Layout, Slot, slot_of

_PARTITIONS: Final = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


class Span(NamedTuple):
    """Partitions from the first to the last, both included."""

    first: int = 0
    last: int = 999_999

    def covers(self, slot: Slot) -> bool:
        return self.first <= slot.partition <= self.last


Spans = tuple[Span, ...]
EVERY: Final[Spans] = (Span(),)


def covered(spans: Spans, slot: Slot) -> bool:
    return any(span.covers(slot) for span in spans)


class View(NamedTuple):
    """Slots, workers, owners and the collectors' spans, all as of one revision."""

    revision: int
    slots: tuple[Slot, ...]
    workers: Mapping[str, Spans]
    owners: Mapping[Slot, KeyValue]
    led: Spans

    def is_led(self, slot: Slot) -> bool:
        """Whether collectors have the slot."""
        return covered(self.led, slot)

    def plan(self) -> dict[Slot, str]:
        """Who is to own which slot."""
        free = [slot for slot in self.slots if not self.is_led(slot)]
        return share(free, self.workers, {slot: name(item) for slot, item in self.owners.items()})


def share(
    slots: Iterable[Slot], workers: Mapping[str, Spans], owners: Mapping[Slot, str]
) -> dict[Slot, str]:
    """Slots to workers, the same for everybody who asks the same.

    What is owned stays where it is as long as that is fair; the rest goes to who has least.
    """
    load = dict.fromkeys(sorted(workers), 0)
    shared: dict[Slot, str] = {}
    for slot in sorted(slots, key=lambda slot: (slot not in owners, slot)):
        able = [worker for worker in load if covered(workers[worker], slot)]
        if able:
            kept = owners.get(slot)
            chosen = kept if kept in able else min(able, key=load.__getitem__)
            shared[slot] = chosen
            load[chosen] += 1
    while _level(shared, load, workers):
        pass
    return shared


def _level(shared: dict[Slot, str], load: dict[str, int], workers: Mapping[str, Spans]) -> bool:
    """Move slots to workers that have less by two or more; whether any moved."""
    moved = False
    for slot, owner in sorted(shared.items(), reverse=True):
        least = min((w for w in load if covered(workers[w], slot)), key=load.__getitem__)
        if load[owner] - load[least] >= 2:
            shared[slot] = least
            load[owner] -= 1
            load[least] += 1
            moved = True
    return moved


class Ownership:
    """One worker's presence and slots, all under one lease, and gone with it."""

    def __init__(
        self, client: Client, layout: Layout, worker: str, partitions: str, lease: Lease
    ) -> None:
        self._client = client
        self._layout = layout
        self._worker = worker
        self._partitions = partitions
        self.lease = lease

    async def join(self) -> Fence:
        """Be there, so that slots are shared with this worker too."""
        key = self._layout.meta("present", self._worker)
        said = json.dumps({"partitions": self._partitions}).encode()
        return await claim(self._client, key, said, self.lease)

    async def look(self) -> View:
        return await look(self._client, self._layout)

    async def own(self, slot: Slot, revision: int) -> Fence | None:
        """The slot, unless another owns it or collectors changed since `revision`."""
        key = self._layout.meta("owners", str(slot))
        when = [absent(key), unled_since(self._layout, revision)]
        then = [Put(key, self._worker.encode(), self.lease.id)]
        while True:
            self.lease.check()
            try:
                done = await self._client.txn(when=when, then=then, otherwise=[Get(Keys(key))])
            except Ambiguous:  # a slot cannot be owned twice
                continue
            except LeaseNotFound as gone:
                self.lease.drop()
                raise LeaseLost(str(gone)) from gone
            if done.succeeded:
                return Fence(key, done.revision)
            holder = done.got(0).first
            mine = holder is not None and holder.lease == self.lease.id
            return Fence(key, holder.create_revision) if holder is not None and mine else None

    async def give_up(self, fence: Fence) -> None:
        """Let another own the slot at once."""
        await release(self._client, fence)


async def look(client: Client, layout: Layout) -> View:
    """Everything that decides who owns what, as of one revision."""
    names = ("slots", "present", "owners", "collectors")
    done = await client.txn(then=[Get(layout.metas(name)) for name in names])
    slots, workers, owners, collectors = (done.got(at) for at in range(len(names)))
    return View(
        done.revision,
        tuple(slot for slot, _ in _by_slot(layout, "slots", slots)),
        {_last(layout, "present", item): _spans(item.value) for item in workers.items},
        dict(_by_slot(layout, "owners", owners)),
        tuple(
            span
            for item in collectors.items
            for span in spans_of(_last(layout, "collectors", item))
        ),
    )


def unled_since(layout: Layout, revision: int) -> Compare:
    """For a transaction: no collector was elected after a revision."""
    return mod_revision(layout.metas("collectors")).less(revision + 1)


def unowned_since(layout: Layout, revision: int) -> Compare:
    """For a transaction: no worker came to own a slot after a revision."""
    return mod_revision(layout.metas("owners")).less(revision + 1)


def spans_of(name: str) -> Spans:
    """Partitions such as `0-5,7`; all of them where the text does not tell."""
    found = [_PARTITIONS.fullmatch(part) for part in name.split(",")]
    if not all(found):
        return EVERY
    return tuple(Span(int(part[1]), int(part[2] or part[1])) for part in found if part)


def name(owner: KeyValue) -> str:
    """The worker that an owner's key names."""
    return owner.value.decode(errors="replace")


def _by_slot(layout: Layout, kind: str, answer: GetResult) -> list[tuple[Slot, KeyValue]]:
    named = ((_last(layout, kind, item), item) for item in answer.items)
    return [(slot_of(text), item) for text, item in named if text.rpartition("/")[2].isdigit()]


def _last(layout: Layout, kind: str, item: KeyValue) -> str:
    return item.key.removeprefix(layout.metas(kind).start).decode(errors="replace")


def _spans(value: bytes) -> Spans:
    try:
        return spans_of(str(json.loads(value)["partitions"]))
    except (ValueError, KeyError, TypeError):
        return EVERY
