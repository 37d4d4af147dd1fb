"""A segment's two sparse indexes: from offset to position, and from time to offset.

Both are memory-mapped. Space is allocated before an entry is stored: a store into a hole of a full
disk would end the process. Entries ascend, so after a crash the ascending prefix is what is valid.
"""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from operator import le, lt
from pathlib import Path
from typing import Final

from nexus.log.files import remove_file, sync_file, write_file

_FIRST_BYTES: Final = 4096
_STEP_BYTES: Final = 1 << 20
_LOW: Final = 0xFFFF_FFFF
_TIME: Final = struct.Struct("<qI")
_EMPTY: Final = memoryview(b"")


class MappedEntries:
    """A file of fixed-size entries that grows; one writer, any number of reading threads."""

    __slots__ = ("_capacity", "_view", "count", "dirty", "path")

    entry_bytes = 8

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self.count = count
        self.dirty = False
        self._view = _EMPTY
        self._capacity = 0

    @classmethod
    def entries_in(cls, path: Path) -> int:
        """How many entries a trimmed file has; -1 if there is none, or it has a broken one."""
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return -1
        return -1 if size % cls.entry_bytes else size // cls.entry_bytes

    def take_all(self) -> None:
        """Take everything in the file for entries, also the space that was kept for some."""
        try:
            self.count = self.path.stat().st_size // self.entry_bytes
        except FileNotFoundError:
            self.count = 0

    def view(self) -> memoryview:
        """The mapped bytes, as many as there are entries or more."""
        if self._capacity < self.count:
            self._map(self.count * self.entry_bytes, grow=False)
        return self._view

    def reserve(self) -> None:
        """Make room for one more entry; raises OSError where the disk has none."""
        if self.count < self._capacity:
            return
        used = self.count * self.entry_bytes
        self._map(used + min(max(used, _FIRST_BYTES), _STEP_BYTES), grow=True)

    def _map(self, size: int, *, grow: bool) -> None:
        # Only a writer may make the file: a reader's may have been deleted.
        create = os.O_CREAT if grow else 0
        fd = os.open(self.path, os.O_RDWR | create | os.O_CLOEXEC, 0o644)
        try:
            if grow:
                size = -(-size // _FIRST_BYTES) * _FIRST_BYTES
                os.posix_fallocate(fd, 0, size)
            self._view = self._shape(memoryview(mmap.mmap(fd, size)))
        finally:
            os.close(fd)
        self._capacity = size // self.entry_bytes

    def _shape(self, view: memoryview) -> memoryview:
        return view

    def truncate(self, count: int) -> None:
        """Forget the entries from a number on, on disk too."""
        if count >= self.count:
            self.trim()
            return
        # In a new file: whoever still looks into the old one would be killed if it shrank.
        kept = bytes(self.view().cast("B")[: count * self.entry_bytes])
        write_file(self.path, kept, durable=False)
        self.count = count
        self.dirty = True
        self.close()

    def trim(self) -> None:
        """Give back the space beyond the last entry."""
        try:
            os.truncate(self.path, self.count * self.entry_bytes)
        except FileNotFoundError:
            with open(self.path, "wb"):
                pass
        # What is mapped beyond the end may no longer be touched: the next entry maps anew.
        self._capacity = self.count
        self.dirty = True

    def sync(self) -> None:
        """Make the entries durable."""
        if not self.dirty:
            return
        self.dirty = False
        # One that was deleted meanwhile needs no more.
        with suppress(FileNotFoundError):
            sync_file(self.path)

    def close(self) -> None:
        """Let go of the mapping; the next use maps it again."""
        self._capacity = 0
        self._view = _EMPTY

    def remove(self) -> None:
        """Delete the file; those who look something up may go on."""
        remove_file(self.path)


class OffsetIndex(MappedEntries):
    """Entries of eight bytes: relative offset in the high half, position in the low one."""

    __slots__ = ()

    def _shape(self, view: memoryview) -> memoryview:
        return view.cast("Q")

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry for which room was reserved."""
        count = self.count
        self._view[count] = relative_offset << 32 | position
        self.count = count + 1
        self.dirty = True

    def floor(self, relative_offset: int) -> tuple[int, int]:
        """The last entry at or below an offset, as (relative offset, position); (-1, 0) if none."""
        count = self.count
        view = self.view()
        at = bisect_right(view, relative_offset << 32 | _LOW, 0, count) - 1
        if at < 0:
            return -1, 0
        entry = view[at]
        return entry >> 32, entry & _LOW

    def floor_position(self, position: int) -> tuple[int, int]:
        """The last entry at or below a position: relative offset and position; zeros if none."""
        count = self.count
        view = self.view()
        at = bisect_right(view, position, 0, count, key=_low_half) - 1
        return (view[at] >> 32, view[at] & _LOW) if at >= 0 else (0, 0)

    def last(self) -> tuple[int, int]:
        """The last entry; (-1, -1) if there is none."""
        count = self.count
        if not count:
            return -1, -1
        entry = self.view()[count - 1]
        return entry >> 32, entry & _LOW

    def count_to(self, relative_offset: int) -> int:
        """How many entries are at or below an offset."""
        return bisect_right(self.view(), relative_offset << 32 | _LOW, 0, self.count)

    def ascending(self, positions_below: int) -> int:
        """How many entries from the first on ascend and point below a position."""
        if not self.count:
            return 0
        entries = array("Q", self.view()[: self.count].tobytes())
        if entries[0] & _LOW:
            return 0
        count = _ascending_prefix(entries)
        return bisect_left(entries, positions_below, 0, count, key=_low_half)


def _ascending_prefix(entries: Sequence[int]) -> int:
    """How many entries ascend strictly, found without a loop: there may be a million."""
    falls_after = bytes(map(lt, entries, islice(entries, 1, None))).find(0)
    return len(entries) if falls_after < 0 else falls_after + 1


def _low_half(entry: int) -> int:
    return entry & _LOW


class TimeIndex(MappedEntries):
    """Entries (time, relative offset): no record before that offset is later than that time.

    The first entry holds the time of the first batch, and a sealed index ends with the latest.
    """

    __slots__ = ()

    entry_bytes = 12

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry for which room was reserved."""
        count = self.count
        _TIME.pack_into(self._view, count * 12, timestamp, relative_offset)
        self.count = count + 1
        self.dirty = True

    def entry(self, number: int) -> tuple[int, int]:
        """The entry with a number; negative ones count from the end."""
        if number < 0:
            number += self.count
        timestamp, relative_offset = _TIME.unpack_from(self.view(), number * 12)
        return timestamp, relative_offset

    def floor(self, timestamp: int) -> int:
        """The relative offset before which every record is older than a time."""
        count = self.count
        view = self.view()

        def time_of(number: int) -> int:
            return int(_TIME.unpack_from(view, number * 12)[0])

        at = bisect_left(range(count), timestamp, key=time_of) - 1
        return self.entry(at)[1] if at >= 0 else 0

    def ascending(self, relative_offsets_to: int) -> int:
        """How many entries from the first on ascend and do not lie beyond an offset."""
        if not self.count:
            return 0
        data = self.view()[: self.count * self.entry_bytes]
        timestamps, offsets = zip(*_TIME.iter_unpack(data), strict=True)
        count = _ascending_prefix(offsets)
        falls_after = bytes(map(le, timestamps, islice(timestamps, 1, count))).find(0)
        if falls_after >= 0:
            count = falls_after + 1
        return bisect_right(offsets, relative_offsets_to, 0, count)
