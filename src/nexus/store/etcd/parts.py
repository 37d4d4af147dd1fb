"""Parts: the keys of one path in a stretch of time, where the Delta store has files.

Where readings are is found out once for a question, by counting; then parts of it are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from nexus.etcd.results import KeyValue
from nexus.store.errors import TooMuch
from nexus.store.etcd.decoding import decoded, together
from nexus.store.etcd.index import Index
from nexus.store.etcd.layout import MOMENT_DIGITS, data_keys, moment_us_of, path_name
from nexus.store.etcd.memory import BLOCK_US, UNSETTLED_US, Memory, Wanted
from nexus.store.etcd.reading import Asked, Reader
from nexus.store.port import Selection
from nexus.store.questions.held import Held
from nexus.store.questions.spans import Stretch

ROWS_MAX: Final = 3_000_000  # that one statement may have to look at
REMEMBERED_LEAST: Final = 20_000  # readings; fewer are read as they are, and forgotten
REMEMBERED_BLOCKS: Final = 2_000  # of a path, at most: some clocks are decades off
_METRIC: Final = slice(MOMENT_DIGITS + 1, -17)  # of a reading's id: before it the time, then a hash


class Part(Held):
    """What a question takes for a file; its bounds and rows are estimates."""

    stretch: Stretch
    of: Surveyed

    @property
    def asked(self) -> Asked:
        return Asked(data_keys(self.path, self.stretch.low, self.stretch.high), self.rows)

    @property
    def wanted(self) -> Wanted:
        settled = -1 if self.of.newest is None else self.of.newest - UNSETTLED_US
        return Wanted(self.path, self.stretch, self.of.low, self.of.high, settled, self.rows)


@dataclass(frozen=True, slots=True)
class Surveyed:
    """How many keys a path has in a stretch of time, and about where."""

    path: str
    stretch: Stretch
    keys: int
    low: int  # the time of the first key
    high: int  # about that of the last
    newest: int | None  # when the GPU was last heard of, if anybody knows
    moved: bool  # whether other paths may hold the same readings

    def part(self, asked: Stretch) -> Part | None:
        """What of it lies in a stretch that is no longer; None if nothing does."""
        if asked.high <= self.low:
            return None
        low, high = max(asked.low, self.low), min(asked.high - 1, self.high)
        share = max(0, high - low + 1) / (self.high - self.low + 1)
        if asked == self.stretch:
            share = 1.0
        rows = max(1, round(self.keys * share))
        part = Part(self.path, rows, 0, low, max(low, high), None)
        part.stretch, part.of = asked, self
        return part


def survey(reader: Reader, index: Index, which: Selection, whole: Stretch) -> list[Surveyed]:
    """The paths that have readings of a stretch of time, if they can be of a selection."""
    owners = [(uuid, path) for uuid, paths in index.paths(which).items() for path in paths]
    ranges = [data_keys(path, whole.low, whole.high) for _, path in owners]
    counts = reader.counted(ranges, index.revision)
    found = []
    for (uuid, path), count in zip(owners, counts, strict=True):
        if count.first is not None:
            low, newest = moment_us_of(count.first.key), index.newest_us.get(uuid)
            high = max(low, min(whole.high - 1, whole.high if newest is None else newest))
            moved = index.moved(uuid)
            found.append(Surveyed(path, whole, count.keys, low, high, newest, moved))
    return found


@dataclass(frozen=True, slots=True)
class Source:
    """Where readings are read from: etcd, at the revision of the index, and memory."""

    reader: Reader
    memory: Memory
    index: Index

    def read(self, parts: Sequence[Part], metrics: Sequence[str] = ()) -> pa.Table:
        """The readings of these parts, and perhaps others; of these metrics, if some are named."""
        _refuse_many(sum(part.rows for part in parts))
        wanted = {path_name(metric).encode() for metric in metrics}
        plain = [part for part in parts if not part.of.moved]
        found: list[pa.Table] = []
        if sum(part.rows for part in plain) >= REMEMBERED_LEAST:
            many = [part for part in plain if _is_remembered(part)]
            found += self.memory.read(self.index, _by_path(part.wanted for part in many))
            plain = [part for part in plain if not _is_remembered(part)]
        found += (decoded(_of(items, wanted)) for items in self._items(plain))
        moved = self._items(part for part in parts if part.of.moved)
        told = told_first(item for items in moved for item in items)
        return together([*found, decoded(_of(told, wanted))])

    def _items(self, parts: Iterable[Part]) -> Iterator[list[KeyValue]]:
        return self.reader.items([part.asked for part in parts], self.index.revision)


def _by_path(wanted: Iterable[Wanted]) -> list[Wanted]:
    """What is wanted of each path, once: several stretches as one that holds them all."""
    found: dict[str, Wanted] = {}
    for each in wanted:
        other = found.get(each.path, each)
        low = min(each.stretch.low, other.stretch.low)
        high = max(each.stretch.high, other.stretch.high)
        found[each.path] = other._replace(stretch=Stretch(low, high))
    return list(found.values())


def _is_remembered(part: Part) -> bool:
    return (part.of.high - part.of.low) // BLOCK_US < REMEMBERED_BLOCKS


def _refuse_many(rows: int) -> None:
    if rows > ROWS_MAX:
        raise TooMuch(
            f"more than {ROWS_MAX} readings would have to be read: ask for less time or fewer GPUs"
        )


def _of(items: Iterable[KeyValue], metrics: set[bytes]) -> list[bytes]:
    """The values of readings of these metrics; of any, if there are none."""
    if not metrics:
        return [item.value for item in items]
    return [item.value for item in items if _id(item)[_METRIC] in metrics]


def told_first(items: Iterable[KeyValue]) -> list[KeyValue]:
    """Of readings that a GPU has under several paths, those that were stored first."""
    found: dict[tuple[bytes, bytes], KeyValue] = {}
    for item in items:
        path, _, name = item.key.rpartition(b"/data/")
        key = path.rpartition(b"/")[2], name
        other = found.get(key)
        if other is None or item.create_revision < other.create_revision:
            found[key] = item
    return list(found.values())


def _id(item: KeyValue) -> bytes:
    return item.key.rpartition(b"/")[2]
