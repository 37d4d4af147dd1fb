"""Deletes old segments: by age, by size, or because an operator asked for it.

The new start of the log counts before a file goes, so nobody is sent to one that is missing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from nexus.log.config import FOREVER
from nexus.log.layout import START_FILE, write_offset
from nexus.log.segment import Segment
from nexus.wire.errors import OffsetOutOfRange, StorageError

if TYPE_CHECKING:
    from nexus.log.partition_log import PartitionLog


def retain(log: PartitionLog, now_ms: int) -> int:
    """Delete the segments that are too old or too many; returns the bytes freed."""
    if not log.config.delete or not log.segments or log.closed:
        return 0
    # A log that is offline for want of space gets some by this, but is not written to.
    last = log.segments[-1]
    flushed = log.failure is None and log.flushed_offset == log.end_offset
    if flushed and last.size and _expired(log, last, now_ms):
        log.roll()
        log.flush()
    return _drop_first(log, max(_count_expired(log, now_ms), _count_excess(log)))


def _expired(log: PartitionLog, segment: Segment, now_ms: int) -> bool:
    if log.config.retention_ms == FOREVER:
        return False
    latest = segment.max_timestamp
    if latest < 0:
        latest = int(segment.path.stat().st_mtime * 1000)
    return latest < now_ms - log.config.retention_ms


def _count_expired(log: PartitionLog, now_ms: int) -> int:
    """How many segments from the first on are too old, and wholly on disk."""
    count = 0
    segments = log.segments
    for segment, following in pairwise(segments):
        if following.base_offset > log.flushed_offset or not _expired(log, segment, now_ms):
            break
        count += 1
    return count


def _count_excess(log: PartitionLog) -> int:
    """How many segments from the first on the log can lose and still have its share of bytes."""
    if log.config.retention_bytes == FOREVER:
        return 0
    excess = log.size_bytes - log.config.retention_bytes
    count = 0
    segments = log.segments
    for segment, following in pairwise(segments):
        excess -= segment.size
        if excess < 0 or following.base_offset > log.flushed_offset:
            break
        count += 1
    return count


def delete_before(log: PartitionLog, offset: int) -> int:
    """Begin the log at an offset, for good; returns where it begins now."""
    if not 0 <= offset <= log.flushed_offset:
        raise OffsetOutOfRange(f"{offset} is not in {log.start_offset}..{log.flushed_offset}")
    with log.flush_lock:
        if offset <= log.start_offset:
            return log.start_offset
        try:
            write_offset(log.directory, START_FILE, offset)
        except OSError as error:
            raise StorageError(f"{log.directory}: {error.strerror}") from error
        with log.lock:
            log.start_offset = offset
            log.leader_epochs.cut_start(offset)
        segments = log.segments
        covered = [following.base_offset <= offset for following in segments[1:]]
        _drop_first(log, sum(covered))
    return log.start_offset


def _drop_first(log: PartitionLog, count: int) -> int:
    """Delete segments from the start of the log; returns the bytes freed."""
    if not count:
        return 0
    with log.flush_lock:
        return _drop(log, count)


def _drop(log: PartitionLog, count: int) -> int:
    dropped = log.drop_first(count)
    # From the first on: what a crash leaves is still without a hole.
    # Nothing but slices that are being sent may hold the files: else their space is not free.
    for segment in dropped:
        segment.remove()
        segment.close()
    return sum(segment.size for segment in dropped)
