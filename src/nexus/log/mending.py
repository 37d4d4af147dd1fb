"""Replaces damaged batches by sound copies from another broker, byte for byte and in their place.

Replicas hold the same bytes at the same offsets, so a copy fits exactly or is refused. Where the
log was compacted they may hold other batches: there a copy must also be seen to be of the same one.
What was there before is kept in a file beside the segment, for a person to look at.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nexus.log.files import FileSlice, read_at, write_at, write_file
from nexus.log.scan import batches, headers, next_batch
from nexus.log.segment import Segment
from nexus.log.verify import Chain, Corruption, verify_segments
from nexus.wire.batch import HEADER_BYTES, BatchHeader, crc_of, iter_headers
from nexus.wire.errors import CorruptMessage, StorageError

if TYPE_CHECKING:
    from nexus.log.partition_log import PartitionLog

_log: Final = logging.getLogger(__name__)

DAMAGED: Final = ".damaged-"
_KEPT_MOST: Final = 16  # files with what was there before, for each partition


class CannotMend(CorruptMessage):
    """Raised when a copy does not fit where the damage is."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A segment, and the offset that follows its last batch."""

    segment: Segment
    end_offset: int


def damage_near(log: PartitionLog, offset: int) -> Corruption | None:
    """The first damage in the segment that holds an offset; reads all of that segment."""
    with log.flush_lock:
        place = _place_of(log, offset)
        if place is None or log.failure is not None:
            return None
        data = FileSlice(place.segment.file, 0, place.segment.size)
    return next(verify_segments([(place.segment, data)], log.gaps_below), None)


def wanted_from(log: PartitionLog, damage: Corruption) -> int:
    """From where on copies are needed: in what was compacted, the batch need not be the next."""
    if damage.offset < log.gaps_below:
        with log.flush_lock:
            place = _place_of(log, damage.offset)
            found = None if place is None else _header_at(place.segment, damage.position)
        if found is not None and damage.offset <= found.base_offset < log.end_offset:
            return found.base_offset
    return damage.offset


def mend(log: PartitionLog, damage: Corruption, copies: memoryview) -> int:
    """Put sound copies where damage was found; returns up to which offset.

    `copies` are whole batches of another replica, from `wanted_from` on. CannotMend where they do
    not fit, StorageError where the disk fails.
    """
    with log.flush_lock:
        place = _place_of(log, damage.offset)
        if place is None or place.segment.path != damage.file or log.failure is not None:
            return damage.offset
        segment = place.segment
        if damage.offset < log.gaps_below:
            fitting = [_same(segment, damage, copies)]
        else:
            fitting = list(_fitting(place, damage, copies, log.gaps_below))
        start, end = damage.position, fitting[-1][0] + fitting[-1][1].size
        if read_at(segment.file.fd, end - start, start) == copies[: end - start]:
            raise CannotMend(f"{damage}: the copy is the same")
        try:
            _set_aside(segment, start, end)
            for position, header, batch in fitting:
                write_at(segment.file.fd, batch, position)
                _log.warning("%s: offset %d is mended", segment.path, header.base_offset)
            segment.sync()
        except OSError as error:
            raise StorageError(f"{segment.path}: mending failed: {error.strerror}") from error
        _index_anew(log, place)
        return fitting[-1][1].next_offset


def _place_of(log: PartitionLog, offset: int) -> _Place | None:
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        if segment.base_offset <= offset < end:
            return _Place(segment, end)
    return None


def _fitting(
    place: _Place, damage: Corruption, copies: memoryview, gaps_below: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """The copies that are needed, each with its position: up to where the log is sound again."""
    segment, at = place.segment, damage.position
    chain = Chain(damage.offset, gaps_below=0)
    for start, header in iter_headers(copies):
        batch = copies[start : start + header.size]
        if (fault := chain.fault(header, batch)) is not None:
            raise CannotMend(f"{damage}: the copy has {fault}")
        if at + header.size > segment.size or header.next_offset > place.end_offset:
            raise CannotMend(f"{damage}: the copy is longer than what is there")
        yield at, header, batch
        at += header.size
        if at == segment.size or _is_sound(segment, at, header, gaps_below):
            return
    if at == damage.position:
        raise CannotMend(f"{damage}: there is no copy")


def _same(
    segment: Segment, damage: Corruption, copies: memoryview
) -> tuple[int, BatchHeader, memoryview]:
    """The copy of a batch in what compaction may have rewritten, with its position.

    Another batch of the same size would fit as well, and take the place of the last value of a key.
    """
    ours, position = _header_at(segment, damage.position), damage.position
    if ours is None:
        raise CannotMend(f"{damage}: nobody knows which batch it was")
    body = read_at(segment.file.fd, ours.size, position)[HEADER_BYTES:]
    for start, header in iter_headers(copies):
        if (header.base_offset, header.size) != (ours.base_offset, ours.size):
            continue
        batch = copies[start : start + header.size]
        is_ours = header.crc == ours.crc or batch[HEADER_BYTES:] == body
        if is_ours and crc_of(batch) == header.crc:
            return position, header, batch
    raise CannotMend(f"{damage}: compaction left another batch there than elsewhere")


def _header_at(segment: Segment, position: int) -> BatchHeader | None:
    found = next(headers(segment.file, position, segment.size), None)
    return None if found is None else found[1]


def sound_behind(log: PartitionLog, offset: int) -> FileSlice | None:
    """What follows a damaged batch in its segment, or in the next, from the first sound batch on.

    A lookup by offset would have to go over the damage, which may hide how long it is.
    """
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        wanted = range(max(offset + 1, segment.base_offset), end)
        at = next_batch(segment.file, 0, segment.size, wanted) if wanted else None
        if at is not None:
            return FileSlice(segment.file, at, segment.size - at)
    return None


def _is_sound(segment: Segment, at: int, after: BatchHeader, gaps_below: int) -> bool:
    """Whether a sound batch is at a position, and follows another."""
    chain = Chain(after.next_offset, gaps_below, after.leader_epoch)
    found = next(batches(segment.file, at, segment.size), None)
    return found is not None and chain.fault(found[1], found[2]) is None


def _set_aside(segment: Segment, start: int, end: int) -> None:
    """Keep the broken bytes. Not without end: a disk that rots must not fill itself with them."""
    directory = segment.path.parent
    if len(list(directory.glob(f"*{DAMAGED}*"))) < _KEPT_MOST:
        kept = directory / f"{segment.path.name}{DAMAGED}{start}"
        write_file(kept, read_at(segment.file.fd, end - start, start))
        _log.warning("what was damaged is kept in %s", kept)


def _index_anew(log: PartitionLog, place: _Place) -> None:
    """Index what lies behind the damage, where a lookup had found that the index led nowhere."""
    segment = place.segment
    with log.lock:
        is_growing = segment is log.segments[-1]
        is_short = segment.offsets.last()[1] < segment.size - 2 * segment.index_interval
        if is_short and not is_growing:
            segment.rebuild_indexes()
            segment.seal(place.end_offset)


def check_batches(data: memoryview, offset: int, gaps_below: int) -> tuple[int, int] | None:
    """Position and offset of the first batch that is not sound, among those read from an offset.

    None where all are.
    """
    found = ((at, header, data[at : at + header.size]) for at, header in iter_headers(data))
    return _first_fault(found, len(data), Chain(offset, gaps_below))


def check_slice(piece: FileSlice, offset: int, gaps_below: int) -> tuple[int, int] | None:
    """The same of what is read from a file bit by bit; afterwards the page cache holds it."""
    start, end = piece.position, piece.position + piece.size
    found = ((at - start, header, batch) for at, header, batch in batches(piece.file, start, end))
    return _first_fault(found, piece.size, Chain(offset, gaps_below))


def _first_fault(
    found: Iterator[tuple[int, BatchHeader, memoryview]], size: int, chain: Chain
) -> tuple[int, int] | None:
    offset, end = chain.expected, 0
    try:
        for at, header, batch in found:
            if at == 0:
                # The first batch holds the offset, and may begin before it.
                chain.expected = min(offset, header.base_offset)
            if chain.fault(header, batch) is not None:
                break
            end = at + header.size
    except CorruptMessage:
        pass  # a length that makes it impossible to go on
    return None if end == size else (end, max(chain.expected, offset))
