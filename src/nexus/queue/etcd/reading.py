"""Reading messages of a queue in etcd: lists of names for who plans, pages of values for who reads.

Always the newest state, never an old revision (it may be compacted): what belongs to a window is
told by the revisions that the keys have. A key that is gone was deleted, or has expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple, overload

from nexus.etcd import Get, GetResult, Keys, KeyValue, ResponseTooLarge
from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.forms import unpack_or_raw
from nexus.queue.etcd.layout import Layout, Slot, timestamp_ns_of
from nexus.queue.etcd.planning import Found, Listing, Piece, found
from nexus.queue.etcd.positions import Window
from nexus.queue.port import Batch, Received
from nexus.telemetry.content import JSON_TYPE

LIST_KEYS: Final = 20_000  # of one answer
PAGE_BYTES: Final = 8 << 20
PAGE_KEYS_MAX: Final = 10_000
_FIRST_PAGE_KEYS: Final = 32
_KEY_BYTES: Final = 64
_JSON: Final = {"content-type": JSON_TYPE.encode()}


class Page(NamedTuple):
    """Some messages of one slot as etcd has them, and when it had them."""

    slot: Slot
    items: tuple[KeyValue, ...]
    revision: int


class Unreadable(NamedTuple):
    """A value that is in no form that is known."""

    partition: int
    revision: int
    reason: str
    value: bytes


def keys_of(layout: Layout, slot: Slot, window: Window) -> Keys:
    """The range of keys that a window's names are in."""
    start, end = layout.slot(slot)
    last = end if window.last is None else start + window.last + b"\0"
    return Keys(start + window.first + b"\0" if window.first else start, last)


def names_in(
    etcd: BlockingClient, layout: Layout, slot: Slot, window: Window
) -> Iterator[list[Found]]:
    """The names of a window, page by page; a page may be empty."""
    path = len(layout.slot(slot).start)
    for page in _pages(etcd, Get(keys_of(layout, slot, window), LIST_KEYS, keys_only=True)):
        yield [found(i.key[path:]) for i in page.items if window.holds(i.mod_revision)]


def listed(
    etcd: BlockingClient, layout: Layout, slot: Slot, window: Window, readings: float
) -> Listing:
    """The first names of a window, until they hold about so many readings."""
    names: list[Found] = []
    total = 0
    for page in names_in(etcd, layout, slot, window):
        names += page
        total += sum(each.readings for each in page)
        if total > readings:
            return Listing(tuple(names), is_whole=False)
    return Listing(tuple(names), is_whole=True)


def pages_of(etcd: BlockingClient, layout: Layout, pieces: Sequence[Piece]) -> Iterator[Page]:
    """The messages of some pieces with their values, in order."""
    for slot, window, *_ in pieces:
        for page in _pages(etcd, Get(keys_of(layout, slot, window), _FIRST_PAGE_KEYS)):
            items = tuple(item for item in page.items if window.holds(item.mod_revision))
            if items:
                yield Page(slot, items, page.revision)


class JsonBatch(Batch):
    """Messages that are a JSON value each: columns, of which nothing is made but what is asked."""

    def __init__(self, partition: int, items: Sequence[KeyValue]) -> None:
        super().__init__(())
        self._partition, self._items = partition, items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Received: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Received]: ...
    def __getitem__(self, index: int | slice) -> Received | Sequence[Received]:
        if isinstance(index, slice):
            return [self._message(item) for item in self._items[index]]
        return self._message(self._items[index])

    def offsets(self) -> list[int]:
        return [item.mod_revision for item in self._items]

    def values(self) -> list[bytes]:
        return [item.value for item in self._items]

    def header(self, name: str) -> list[bytes | None]:
        return [_JSON.get(name)] * len(self._items)

    def _message(self, item: KeyValue) -> Received:
        put_ms = _put_ms(item)
        headers = tuple(_JSON.items())
        return Received(self._partition, item.mod_revision, put_ms, None, item.value, headers)


def messages_of(page: Page) -> tuple[list[Batch], list[Unreadable]]:
    """What the values hold: messages in order, and values that hold none."""
    batches: list[Batch] = []
    unreadable: list[Unreadable] = []
    for is_framed, items in groupby(page.items, lambda item: item.value.startswith(b"\0")):
        if is_framed:
            messages, faults = _unpacked(page.slot.partition, items)
            batches += [Batch(messages)] if messages else []
            unreadable += faults
        else:
            batches.append(JsonBatch(page.slot.partition, tuple(items)))
    return batches, unreadable


def _unpacked(partition: int, items: Iterable[KeyValue]) -> tuple[list[Received], list[Unreadable]]:
    messages: list[Received] = []
    unreadable: list[Unreadable] = []
    for item in items:
        frames, fault = unpack_or_raw(item.value)
        if fault:
            unreadable.append(Unreadable(partition, item.mod_revision, fault, item.value))
            continue
        messages += [
            Received(
                partition,
                item.mod_revision,
                frame.timestamp_ms or _put_ms(item),
                frame.key,
                frame.value,
                frame.headers,
            )
            for frame in frames
        ]
    return messages, unreadable


def _put_ms(item: KeyValue) -> int:
    return (timestamp_ns_of(item.key) or 0) // 1_000_000


def _pages(etcd: BlockingClient, get: Get) -> Iterator[GetResult]:
    """A range as pages of about PAGE_BYTES, each of the newest state."""
    while True:
        try:
            page = etcd.range(get)
        except ResponseTooLarge:
            if get.limit == 1:
                raise
            get = get._replace(limit=max(get.limit // 4, 1))
            continue
        yield page
        if not page.more or not page.items:
            return
        limit = get.limit if get.keys_only else _fitting(page)
        get = get._replace(keys=get.keys.after(page.items[-1].key), limit=limit)


def _fitting(page: GetResult) -> int:
    size = sum(len(item.key) + len(item.value) + _KEY_BYTES for item in page.items)
    return max(1, min(PAGE_KEYS_MAX, PAGE_BYTES * len(page.items) // size))
