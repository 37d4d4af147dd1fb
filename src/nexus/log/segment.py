"""A segment: one `.log` file of whole batches, its two indexes, and where its latest batches are.

Appending never waits for the disk and never reads. Everything opens its files when first used.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nexus.log.config import LogConfig
from nexus.log.files import OpenFile, remove_file, write_at
from nexus.log.index import OffsetIndex, TimeIndex
from nexus.log.scan import headers
from nexus.wire.batch import BatchHeader
from nexus.wire.errors import CorruptMessage

NO_TIMESTAMP: Final = -1
_MARKS_MAX: Final = 256


class Marks:
    """Where the latest batches of a growing segment begin: offsets without a gap, and positions."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.positions: list[int] = []

    def add(self, offset: int, position: int) -> None:
        """Remember a batch; the older half is forgotten where there are too many."""
        self.offsets.append(offset)
        self.positions.append(position)
        if len(self.offsets) > _MARKS_MAX:
            del self.offsets[: _MARKS_MAX // 2], self.positions[: _MARKS_MAX // 2]

    def clear(self) -> None:
        """Forget all, where the next batch does not follow the last."""
        self.offsets.clear()
        self.positions.clear()


class Segment:
    """A run of the log from `base_offset` on; written by one thread, read by any."""

    __slots__ = (
        "_file",
        "_max_timestamp",
        "_next_index_at",
        "base_offset",
        "created_ms",
        "index_interval",
        "indexes_synced_at",
        "marks",
        "offsets",
        "path",
        "size",
        "times",
    )

    def __init__(
        self, directory: Path, base_offset: int, size: int, config: LogConfig, suffix: str = ""
    ) -> None:
        stem = f"{base_offset:020d}"
        self.path = directory / f"{stem}.log{suffix}"
        self.base_offset = base_offset
        self.size = size
        self.index_interval = config.index_interval_bytes
        self.offsets = OffsetIndex(directory / f"{stem}.index{suffix}", 0)
        self.times = TimeIndex(directory / f"{stem}.timeindex{suffix}", 0)
        self.marks = Marks()
        self.created_ms = 0
        self.indexes_synced_at = 0
        self._file: OpenFile | None = None
        self._max_timestamp: int | None = None
        self._next_index_at = 0

    @classmethod
    def create(
        cls, directory: Path, base_offset: int, config: LogConfig, suffix: str = ""
    ) -> Segment:
        """A new, empty segment; its name is durable when the directory was synced."""
        segment = cls(directory, base_offset, 0, config, suffix)
        # Whatever was left under these names by an interrupted start goes.
        segment._file = OpenFile(segment.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        segment._max_timestamp = NO_TIMESTAMP
        segment.offsets.remove()
        segment.times.remove()
        segment.offsets.reserve()
        segment.times.reserve()
        return segment

    @property
    def file(self) -> OpenFile:
        """The open `.log` file."""
        file = self._file
        if file is None:
            file = self._file = OpenFile(self.path)
        return file

    @property
    def max_timestamp(self) -> int:
        """The latest time of any record in it; -1 where none has one."""
        latest = self._max_timestamp
        if latest is None:
            latest = self.times.entry(-1)[0] if self.times.count else NO_TIMESTAMP
            self._max_timestamp = latest
        return latest

    @property
    def first_timestamp(self) -> int:
        """The time of the first batch; -1 where there is none."""
        return self.times.entry(0)[0] if self.times.count else NO_TIMESTAMP

    def trust_indexes(self) -> bool:
        """Take the index files as they are, if their form and last entries fit the log's size."""
        counts = self.offsets.entries_in(self.offsets.path), self.times.entries_in(self.times.path)
        if min(counts) < (1 if self.size else 0):
            return False
        self.offsets.count, self.times.count = counts
        self.indexes_synced_at = self.size
        return True

    def continue_indexes(self) -> bool:
        """Trust the indexes, and be ready to add to them."""
        if not self.trust_indexes():
            return False
        last = self.offsets.last()[1]
        self._next_index_at = last + self.index_interval if self.size else 0
        return last < max(self.size, 1)

    def cut_indexes(self, position: int) -> int:
        """Keep the entries that are sound and lie before a position; returns the last one's.

        From there on batches are indexed again by `note`.
        """
        self.offsets.count = max(self.offsets.count, 0)
        keep = self.offsets.ascending(position)
        reach = self.offsets.view()[keep - 1] >> 32 if keep else -1
        self.times.truncate(self.times.ascending(reach))
        # Without the time entry beside it an offset entry is of no use: they go on together.
        reach = self.times.entry(-1)[1] if self.times.count else -1
        self.offsets.truncate(min(keep, self.offsets.count_to(reach)))
        last = self.offsets.last()[1]
        self._next_index_at = last + self.index_interval if last >= 0 else 0
        self._max_timestamp = self.times.entry(-1)[0] if self.times.count else NO_TIMESTAMP
        return max(last, 0)

    # Writing ----------------------------------------------------------------------------------

    def append(self, batch: memoryview, base_offset: int, max_timestamp: int) -> None:
        """Write a batch at the end. Raises OSError, and then counts nothing of it."""
        position = self.size
        due = position >= self._next_index_at
        if due:
            self.offsets.reserve()
            self.times.reserve()
        file = self.file
        write_at(file.fd, batch, position)
        if due:
            self._index(base_offset, position, max_timestamp)
        if max_timestamp > self.max_timestamp:
            self._max_timestamp = max_timestamp
        self.marks.add(base_offset, position)
        self.size = position + len(batch)

    def note(self, position: int, base_offset: int, max_timestamp: int) -> None:
        """Index a batch that is in the file already, as if it were appended now."""
        if position >= self._next_index_at:
            self.offsets.reserve()
            self.times.reserve()
            self._index(base_offset, position, max_timestamp)
        if max_timestamp > self.max_timestamp:
            self._max_timestamp = max_timestamp

    def _index(self, base_offset: int, position: int, max_timestamp: int) -> None:
        relative = base_offset - self.base_offset
        latest = self.max_timestamp if self.times.count else max_timestamp
        if not self.times.count or self.times.entry(-1)[1] < relative:
            self.times.append(latest, relative)
        self.offsets.append(relative, position)
        self._next_index_at = position + self.index_interval

    def seal(self, next_offset: int) -> None:
        """End the indexes: the last entry holds the latest time, and unused space goes."""
        relative = next_offset - self.base_offset
        if self.size and self.times.entry(-1) != (self.max_timestamp, relative):
            if self.times.entry(-1)[1] == relative:
                self.times.truncate(self.times.count - 1)
            self.times.reserve()
            self.times.append(self.max_timestamp, relative)
        self.offsets.trim()
        self.times.trim()

    def truncate(self, position: int) -> None:
        """Cut the file, and the index entries that pointed beyond."""
        os.ftruncate(self.file.fd, position)
        self.size = position
        self.marks = Marks()
        self._index_from(self.cut_indexes(position))

    def _index_from(self, start: int) -> None:
        for position, header in headers(self.file, start, self.size):
            self.note(position, header.base_offset, header.max_timestamp)

    def rebuild_indexes(self) -> None:
        """Index the whole file anew, for one whose indexes do not fit."""
        self.cut_indexes(0)
        self._index_from(0)

    def sync(self) -> None:
        """Make the data durable; raises OSError."""
        file = self.file
        os.fdatasync(file.fd)

    def sync_indexes(self) -> None:
        """Make the indexes durable."""
        self.offsets.sync()
        self.times.sync()
        self.indexes_synced_at = self.size

    def close(self) -> None:
        """Let go of files; those who still read keep them open."""
        self.offsets.close()
        self.times.close()
        self._file = None

    def hold(self) -> None:
        """Have everything open, so that the files can be replaced while some still read them."""
        self.offsets.view()
        self.times.view()
        _ = self.file, self.max_timestamp

    def renamed(self) -> None:
        """The files have lost their suffix."""
        self.path = self.path.with_suffix("")
        for index in (self.offsets, self.times):
            index.path = index.path.with_suffix("")

    def remove(self) -> None:
        """Delete the files; those who read one may go on."""
        remove_file(self.path)
        self.offsets.remove()
        self.times.remove()

    # Looking up -------------------------------------------------------------------------------

    def tail_headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """The last few batches: those from the last that is indexed on."""
        return headers(self.file, max(self.offsets.last()[1], 0), self.size)

    def batch_at(self, offset: int, end: int) -> tuple[int, BatchHeader] | None:
        """The first batch before position `end` that reaches an offset, with its position."""
        relative, position = self.offsets.floor(offset - self.base_offset)
        expected = relative + self.base_offset
        reached = position
        for at, header in headers(self.file, position, end):
            if at == position and relative >= 0 and header.base_offset != expected:
                raise IndexMismatch(self)
            if header.base_offset + header.last_offset_delta >= offset:
                return at, header
            reached = at + header.size
        if reached == position < end and relative > 0:
            raise IndexMismatch(self)
        if reached < end:
            raise CorruptMessage(f"{self.path} holds no batch at {reached}, offset {offset}")
        return None

    def position_below(self, offset: int) -> int:
        """Where the first batch that reaches an offset begins: all before it lies below."""
        marks = self.marks
        at = bisect_right(marks.offsets, offset) - 1
        if at >= 0:
            return marks.positions[at]
        found = self.batch_at(offset, self.size)
        return found[0] if found else self.size

    def boundary_at_most(self, start: int, first: BatchHeader, position: int) -> tuple[int, int]:
        """Where a batch ends at or before a position, near it, and which offset comes then.

        `first` is the batch at `start`, which ends before the position.
        """
        end, next_offset = start + first.size, first.next_offset
        relative, indexed = self.offsets.floor_position(position)
        if indexed > end:
            return indexed, self.base_offset + relative
        for at, header in headers(self.file, end, self.size):
            if at + header.size > position:
                break
            end, next_offset = at + header.size, header.next_offset
        return end, next_offset


class IndexMismatch(Exception):
    """Raised when an index entry does not point to the batch that it names."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(str(segment.offsets.path))
        self.segment = segment
