"""Finding batches in a log: by offset for consumers, by time for those who seek.

What was appended lately is found in memory; everything else by the index and a short walk.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from nexus.log.files import FileSlice, read_at
from nexus.log.scan import headers
from nexus.log.segment import IndexMismatch, Segment
from nexus.wire.batch import BatchHeader
from nexus.wire.errors import OffsetOutOfRange, ProtocolError
from nexus.wire.records import iter_records

_log: Final = logging.getLogger(__name__)
_DECOMPRESSED_MAX: Final = 64 << 20
_TRIES: Final = 3

T = TypeVar("T")


class Readable(Protocol):
    """What reading needs of a log."""

    @property
    def segments(self) -> tuple[Segment, ...]: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...


def read(
    log: Readable, offset: int, max_bytes: int, limit: int, at_least_one: bool
) -> FileSlice | None:
    """Whole batches from one that reaches `offset`, all before `limit`, as `PartitionLog.read`."""
    last = log.segments[-1]
    if offset >= last.base_offset:
        at = bisect_right(last.marks.offsets, offset) - 1
        if at >= 0:
            return _read_latest(log, at, max_bytes, limit, at_least_one)
    return _healing(log, lambda: _read_indexed(log, offset, max_bytes, limit, at_least_one))


def _read_latest(
    log: Readable, at: int, max_bytes: int, limit: int, at_least_one: bool
) -> FileSlice | None:
    """Read from the batch with a number among the latest, without touching the disk."""
    segment = log.segments[-1]
    offsets, positions = segment.marks.offsets, segment.marks.positions
    start = positions[at]
    # The number of the first batch that is left out; one past the last if none is.
    end = len(offsets) if limit >= log.end_offset else bisect_right(offsets, limit) - 1
    stop = positions[end] if end < len(positions) else segment.size
    if stop - start > max_bytes:
        end = bisect_right(positions, start + max_bytes) - 1
        if end == at and at_least_one:
            end += 1
        stop = positions[end] if end < len(positions) else segment.size
    if stop <= start:
        return None
    next_offset = offsets[end] if end < len(offsets) else log.end_offset
    piece = FileSlice(segment.file, start, stop - start, next_offset)
    piece.is_checked = True  # by whoever appended it
    return piece


def _read_indexed(
    log: Readable, offset: int, max_bytes: int, limit: int, at_least_one: bool
) -> FileSlice | None:
    segments = log.segments
    end_offset = log.end_offset
    first = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
    for number in range(first, len(segments)):
        segment = segments[number]
        if segment.base_offset >= limit:
            return None
        more = number + 1 < len(segments)
        segment_end = segments[number + 1].base_offset if more else end_offset
        stop = segment.size if limit >= segment_end else segment.position_below(limit)
        found = segment.batch_at(offset, stop)
        if found is not None:
            until = (stop, min(limit, segment_end))
            return _cut_to(segment, found, until, max_bytes, at_least_one)
    return None


def _cut_to(
    segment: Segment,
    found: tuple[int, BatchHeader],
    until: tuple[int, int],
    max_bytes: int,
    at_least_one: bool,
) -> FileSlice | None:
    """From the batch that was found to a position, at which the given offset comes next."""
    start, header = found
    stop, next_offset = until
    if stop - start > max_bytes:
        if header.size > max_bytes:
            stop = start + header.size if at_least_one else start
            next_offset = header.next_offset
        else:
            stop, next_offset = segment.boundary_at_most(start, header, start + max_bytes)
    return FileSlice(segment.file, start, stop - start, next_offset) if stop > start else None


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _healing(log: Readable, work: Callable[[], T]) -> T:
    """Do something that looks things up; mend an index or look anew if a segment is gone."""
    for _ in range(_TRIES):
        try:
            return work()
        except IndexMismatch as mismatch:
            _mend(log, mismatch)
        except FileNotFoundError:
            continue
    raise OffsetOutOfRange(f"the offset is no longer there, the log begins at {log.start_offset}")


def _mend(log: Readable, mismatch: IndexMismatch) -> None:
    for segment in log.segments:
        if segment is mismatch.segment:
            _log.warning("the indexes of %s do not fit and are made anew", segment.path)
            segment.rebuild_indexes()


# By time ------------------------------------------------------------------------------------


def offset_for_time(log: Readable, timestamp_ms: int, upto: int) -> tuple[int, int] | None:
    """Offset and time of the first record at or after a time, among those before `upto`."""
    return _healing(log, lambda: _offset_for_time(log, timestamp_ms, upto))


def _offset_for_time(log: Readable, timestamp_ms: int, upto: int) -> tuple[int, int] | None:
    for segment in log.segments:
        if segment.base_offset >= upto:
            return None
        if segment.max_timestamp < timestamp_ms or not segment.size:
            continue
        found = _in_segment(segment, timestamp_ms, log.start_offset, upto)
        if found is not None:
            return found
    return None


def _in_segment(segment: Segment, wanted: int, start: int, upto: int) -> tuple[int, int] | None:
    relative = max(segment.times.floor(wanted), start - segment.base_offset)
    position = segment.offsets.floor(relative)[1]
    file = segment.file
    for at, header in headers(file, position, segment.size):
        if header.base_offset >= upto:
            return None
        if header.max_timestamp < wanted or header.last_offset < start:
            continue
        found = _in_batch(read_at(file.fd, header.size, at), header, wanted, start, upto)
        if found is not None:
            return found
    return None


def _in_batch(
    batch: bytes, header: BatchHeader, wanted: int, start: int, upto: int
) -> tuple[int, int] | None:
    try:
        for record in iter_records(memoryview(batch), _DECOMPRESSED_MAX):
            if record.timestamp >= wanted and start <= record.offset < upto:
                return record.offset, record.timestamp
    except ProtocolError:
        # Records that cannot be looked into, whatever they unpack to: the batch is the answer.
        return max(header.base_offset, start), header.max_timestamp
    return None
