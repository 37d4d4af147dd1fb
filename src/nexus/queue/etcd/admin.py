"""What an operator sees of a queue in etcd: how much waits where, who reads it, what is stuck."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final, NamedTuple

from nexus.etcd import Client, Compacted, Get, Keys, KeyValue
from nexus.queue.etcd.attempts import Failure
from nexus.queue.etcd.counts import Totals, depths, totals
from nexus.queue.etcd.hands import Record
from nexus.queue.etcd.layout import Layout, Slot, slot_of, timestamp_ns_of
from nexus.queue.etcd.owners import View, look, name
from nexus.queue.etcd.slots import gaps

NOBODY: Final = ""
_SHOWN_MOST: Final = 10_000


class SlotState(NamedTuple):
    """One slot: how many keys wait, since when, and who takes them out."""

    slot: Slot
    keys: int
    oldest_ms: int | None
    reader: str  # a worker's name, `collector`, or nobody


class Overview(NamedTuple):
    """A queue at a glance."""

    slots: tuple[SlotState, ...]
    totals: Totals
    in_hand: int  # claims, each of one message or more
    failed: int
    dead: int
    workers: int

    @property
    def beside(self) -> int:
        """Keys that lie in no slot: put by other programs, and not adopted yet."""
        return max(0, self.totals.waiting - sum(each.keys for each in self.slots))

    @property
    def oldest_ms(self) -> int | None:
        return min((s.oldest_ms for s in self.slots if s.oldest_ms is not None), default=None)


async def overview(client: Client, layout: Layout) -> Overview:
    """Everything that is counted; slots as their keys tell."""
    view = await look(client, layout)
    found = await depths(client, layout, view.slots)
    counted = [layout.metas("claimed"), layout.metas("failed"), layout.dead_letters]
    done = await client.txn(then=[Get(keys, count_only=True) for keys in counted])
    states = [
        SlotState(each.slot, each.keys, _published_ms(each.oldest), reader_of(view, each.slot))
        for each in found
    ]
    in_hand, failed, dead = (done.got(at).total for at in range(len(counted)))
    counters = await totals(client, layout)
    return Overview(tuple(states), counters, in_hand, failed, dead, len(view.workers))


def reader_of(view: View, slot: Slot) -> str:
    """Who takes messages out of a slot now."""
    if view.is_led(slot):
        return "collector"
    return name(view.owners[slot]) if slot in view.owners else NOBODY


async def peek(
    client: Client, layout: Layout, most: int, only: Sequence[Slot] = (), *, dead: bool = False
) -> list[KeyValue]:
    """The oldest messages, as their keys tell, which stay where they are."""
    if dead:
        ranges = [layout.dead_letters]
    elif only:
        ranges = [layout.slot(slot) for slot in only]
    else:
        slots = (await look(client, layout)).slots
        ranges = [*(layout.slot(slot) for slot in slots), *gaps(layout, slots)]
    keys: list[bytes] = []
    for keys_of_slot in ranges:
        page = await client.range(Get(keys_of_slot, limit=most, keys_only=True))
        keys += [item.key for item in page.items]
    chosen = sorted(keys, key=_by_age)[:most]
    found = [await client.get(key) for key in chosen]
    return [item for item in found if item is not None]


class Stuck(NamedTuple):
    """Something that does not go on by itself as it should."""

    kind: str  # failed, dead, in hand, nobody
    where: str  # a key, or a slot
    since_ms: int | None
    attempts: int | None
    why: str


async def stuck(
    client: Client, layout: Layout, *, now_ms: int, older_ms: int, most: int = _SHOWN_MOST
) -> list[Stuck]:
    """Messages that failed, dead letters, and what has been waiting or in hand for too long."""
    view = await look(client, layout)
    names = ("failed", "dead", "claimed")
    done = await client.txn(then=[Get(layout.metas(each), limit=most) for each in names])
    failed, dead, claimed = (done.got(at).items for at in range(len(names)))
    return [
        *_failures(layout, "failed", failed),
        *_failures(layout, "dead", dead),
        *_in_hand(layout, view, claimed, now_ms - older_ms),
        *[each async for each in _unread(client, layout, view, now_ms - older_ms)],
    ]


def _failures(layout: Layout, kind: str, items: Iterable[KeyValue]) -> Iterable[Stuck]:
    base = layout.prefix if kind == "failed" else f"{layout.prefix}.dlq"
    for item in items:
        failure = Failure.of(item.value)
        key = f"{base}/{_below(layout, kind, item)}"
        yield Stuck(kind, key, failure.at_ms, failure.attempts, failure.reason)


def _in_hand(
    layout: Layout, view: View, items: Iterable[KeyValue], before_ms: int
) -> Iterable[Stuck]:
    for item in items:
        record = Record.of(item.value)
        slot = slot_of(_below(layout, "claimed", item).rpartition("/")[0])
        owner = reader_of(view, slot)
        if record is None or (owner == record.worker and record.at_ms > before_ms):
            continue
        why = (
            f"worker {record.worker} has it in hand"
            if owner == record.worker
            else f"worker {record.worker} is gone; the slot's next owner takes it up"
        )
        yield Stuck("in hand", record.first.decode(errors="replace"), record.at_ms, None, why)


async def _unread(
    client: Client, layout: Layout, view: View, before_ms: int
) -> AsyncGenerator[Stuck, None]:
    for depth in await depths(client, layout, view.slots):
        oldest = _published_ms(depth.oldest)
        old = oldest is not None and oldest <= before_ms
        reader = reader_of(view, depth.slot)
        if old and reader == NOBODY:
            yield Stuck(
                "nobody", str(depth.slot), oldest, None, f"{depth.keys} keys wait and nobody reads"
            )
        elif old:
            yield Stuck("slow", str(depth.slot), oldest, None, f"{depth.keys} keys; {reader} reads")


async def follow(client: Client, layout: Layout) -> AsyncGenerator[KeyValue, None]:
    """Messages as they are put, from now on; those of a long absence are left out."""
    while True:
        try:
            async with client.watch(layout.messages, deletes=False) as watch:
                async for batch in watch:
                    for event in batch.events:
                        yield event.item
        except Compacted:
            continue


def _published_ms(key: bytes | None) -> int | None:
    at_ns = timestamp_ns_of(key) if key is not None else None
    return None if at_ns is None else at_ns // 1_000_000


def _by_age(key: bytes) -> tuple[int, bytes]:
    at_ns = timestamp_ns_of(key)
    return (0 if at_ns is None else at_ns, key)


def _below(layout: Layout, kind: str, item: KeyValue) -> str:
    return item.key.removeprefix(layout.metas(kind).start).decode(errors="replace")


def slot_range(layout: Layout, slot: Slot, before_ns: int | None = None) -> Keys:
    """A slot's messages, or those that were published before a time."""
    whole = layout.slot(slot)
    return whole if before_ns is None else Keys(whole.start, whole.start + b"%019d" % before_ns)
