"""Remembers readings that questions about many GPUs have read: the next one reads what is new.

Readings are remembered by path, in blocks of time. A stored reading never changes, and is removed
only with all that are older: so a block is as it was if the first of its keys is, and there are as
many of them. That is asked at the revision of the question, and etcd answers it without reading
values. What a GPU said last is left out: readings of one moment can come in several batches.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import pyarrow as pa

from nexus.etcd.keys import Keys
from nexus.etcd.results import KeyValue
from nexus.store.errors import TooMuch
from nexus.store.etcd.decoding import decoded, together
from nexus.store.etcd.index import Index
from nexus.store.etcd.layout import data_keys, moment_us_of
from nexus.store.etcd.reading import SECONDS_MAX, Asked, Reader, RevisionGone
from nexus.store.questions.spans import SECOND, Stretch

BLOCK_DIGITS: Final = 12  # of an id's twenty digits of microseconds: those that name a block
BLOCK_US: Final = 100 * SECOND
UNSETTLED_US: Final = 10 * SECOND  # before a GPU's newest reading
ROWS_KEPT: Final = 3_000_000  # of about 70 bytes
ROWS_AT_ONCE: Final = 50_000


class Wanted(NamedTuple):
    """The readings of a path in a stretch of time, as far as it is known where they are."""

    path: str
    stretch: Stretch
    low: int  # there are none before
    high: int  # about where the last one is
    settled: int  # up to here, readings that are not there yet are late
    rows: int  # about

    def places(self) -> list[Place]:
        """The blocks that they lie in, one after the other."""
        first = max(self.stretch.low, self.low) // BLOCK_US
        last = min(self.stretch.high - 1, self.high) // BLOCK_US
        return [Place(self.path, number) for number in range(first, max(first, last) + 1)]


class Place(NamedTuple):
    """A path and the number of a block of time."""

    path: str
    number: int

    @property
    def begin(self) -> bytes:
        return data_keys(self.path, self.number * BLOCK_US).start

    @property
    def end(self) -> bytes:
        return data_keys(self.path, (self.number + 1) * BLOCK_US).start


First = tuple[bytes, int]  # a key, and the revision that put it there


class Block(NamedTuple):
    """The keys of a place up to `last`, all there were, and the readings in them."""

    keys: int
    first: First
    last: bytes
    rows: pa.Table

    def joined(self, later: Block) -> Block:
        rows = together([self.rows, later.rows]).unify_dictionaries().combine_chunks()
        return Block(self.keys + later.keys, self.first, later.last, rows)


Found = dict[Place, list[KeyValue]]


class Memory:
    """What is remembered of one store; for one question at a time."""

    def __init__(self, reader: Reader, rows_kept: int = ROWS_KEPT) -> None:
        self._reader = reader
        self._rows_kept = rows_kept
        self._turn = threading.Lock()
        self._blocks: OrderedDict[Place, Block] = OrderedDict()
        self.rows = 0
        self._at = (0, 0)  # the era and the revision that it has come to

    def read(self, index: Index, wanted: Sequence[Wanted]) -> list[pa.Table]:
        """All that is wanted, and perhaps what lies beside it.

        RevisionGone when what is remembered is of a later revision.
        """
        until = time.monotonic() + SECONDS_MAX
        if not self._turn.acquire(timeout=SECONDS_MAX):
            raise TooMuch("others ask for much at this time: ask again, or for less")
        try:
            self._come_to(index)
            found: list[pa.Table] = []
            for some in _portions(wanted):
                if time.monotonic() > until:
                    raise TooMuch(
                        "too much had to be read: ask for less time or fewer GPUs, or again, since"
                        " what was read is remembered"
                    )
                found += self._read(some, index.revision)
                self._forget()
            return found
        finally:
            self._turn.release()

    def _come_to(self, index: Index) -> None:
        era, revision = self._at
        if index.era != era:
            self._blocks.clear()
            self.rows = 0
        elif index.revision < revision:
            raise RevisionGone("what is remembered is of a later revision")
        self._at = index.era, index.revision

    def _read(self, wanted: Sequence[Wanted], revision: int) -> list[pa.Table]:
        places = [place for each in wanted for place in each.places()]
        whole = self._checked(places, revision)
        gaps = [gap for each in wanted for gap in self._gaps(each, whole)]
        rest = self._remembered(wanted, self._gathered(gaps, revision))
        known = [place for place in places if place in self._blocks]
        for place in known:
            self._blocks.move_to_end(place)
        return [*(self._blocks[place].rows for place in known), rest]

    # Whether blocks are as they were

    def _checked(self, places: Iterable[Place], revision: int) -> set[Place]:
        """Drop blocks that are not as they were; those that nothing was added to behind."""
        known = [place for place in places if place in self._blocks]
        good, bad = self._compared(_runs(known), revision)
        _, gone = self._compared([[place] for run in bad for place in run], revision)
        for (place,) in gone:
            self.rows -= self._blocks.pop(place).keys
        return {place for run in good for place in run[:-1]}

    def _compared(
        self, runs: Sequence[list[Place]], revision: int
    ) -> tuple[list[list[Place]], list[list[Place]]]:
        """The runs that are as they were, and those that are not."""
        ranges = [Keys(run[0].begin, self._blocks[run[-1]].last + b"\0") for run in runs]
        counts = self._reader.counted(ranges, revision)
        good: list[list[Place]] = []
        bad: list[list[Place]] = []
        for run, count in zip(runs, counts, strict=True):
            keys = sum(self._blocks[place].keys for place in run)
            first = _first(count.first) if count.first else None
            is_good = count.keys == keys and first == self._blocks[run[0]].first
            (good if is_good else bad).append(run)
        return good, bad

    # What is not remembered yet

    def _gaps(self, wanted: Wanted, whole: set[Place]) -> Iterator[Asked]:
        """The ranges to read: what lies between blocks, behind them, and in no block."""
        places = wanted.places()
        begin: bytes | None = None
        for place in places:
            block = self._blocks.get(place)
            if block is None:
                begin = begin or place.begin
                continue
            if begin is not None:
                yield Asked(Keys(begin, place.begin), wanted.rows)
            begin = None if place in whole else block.last + b"\0"
        end = max(places[-1].end, data_keys(wanted.path, None, wanted.stretch.high).end)
        begin = begin or places[-1].end
        if begin < end:
            yield Asked(Keys(begin, end), wanted.rows)

    def _gathered(self, gaps: Sequence[Asked], revision: int) -> Found:
        found: Found = {}
        for items in self._reader.items(gaps, revision):
            for place, some in groupby(items, _place_of):
                found.setdefault(place, []).extend(some)
        return found

    def _remembered(self, wanted: Sequence[Wanted], found: Found) -> pa.Table:
        """Make blocks of what is settled; the rest."""
        settled = {place: each.settled for each in wanted for place in each.places()}
        kept: Found = {}
        rest: list[KeyValue] = []
        for place, items in found.items():
            cut = bisect_right(items, settled.get(place, -1), key=_moment_us)
            if cut:
                kept[place] = items[:cut]
            rest += items[cut:]
        rows, start = decoded([item.value for items in kept.values() for item in items]), 0
        for place, items in kept.items():
            part = rows.slice(start, len(items))
            start += len(items)
            self._add(place, Block(len(items), _first(items[0]), items[-1].key, part))
        return decoded([item.value for item in rest])

    def _add(self, place: Place, block: Block) -> None:
        before = self._blocks.get(place)
        self._blocks[place] = block if before is None else before.joined(block)
        self.rows += block.keys

    def _forget(self) -> None:
        """What was not asked for longest, if there is too much."""
        while self.rows > self._rows_kept:
            _, block = self._blocks.popitem(last=False)
            self.rows -= block.keys


def _portions(wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    some: list[Wanted] = []
    for each in wanted:
        if some and sum(other.rows for other in some) + each.rows > ROWS_AT_ONCE:
            yield some
            some = []
        some.append(each)
    if some:
        yield some


def _runs(places: Iterable[Place]) -> list[list[Place]]:
    """Places that follow one another, together."""
    runs: list[list[Place]] = []
    for place in places:
        if runs and runs[-1][-1] == (place.path, place.number - 1):
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _first(item: KeyValue) -> First:
    return item.key, item.create_revision


def _moment_us(item: KeyValue) -> int:
    return moment_us_of(item.key)


def _place_of(item: KeyValue) -> Place:
    path, _, name = item.key.rpartition(b"/data/")
    return Place(path.decode(), int(name[:BLOCK_DIGITS]))
