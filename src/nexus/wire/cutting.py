"""A part of a batch, as a batch of its own, for those who want a few of its records.

Only what can be cut by counting is: a batch that is compressed, has gaps, or whose records do not
add up stays whole, and its reader finds out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from nexus.wire.batch import (
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    BatchHeader,
    seal,
    write_header,
)

_SHIFT_MAX: Final = 28  # a length has 32 bits


class Mark(NamedTuple):
    """Where a record begins in the batch at an offset: who wants it next need not count again."""

    base_offset: int
    delta: int
    position: int


def cut(
    batch: memoryview, header: BatchHeader, first: int, last: int, mark: Mark | None = None
) -> tuple[memoryview, Mark | None]:
    """The records from one offset to another, both of the batch, and where the next one begins.

    They keep their offsets: whoever reads batches that compaction left reads this one, too.
    """
    delta, stop = max(first - header.base_offset, 0), last - header.base_offset + 1
    if (delta == 0 and stop > header.last_offset_delta) or not _is_plain(header):
        return batch, mark
    if mark is None or mark.base_offset != header.base_offset or mark.delta > delta:
        mark = Mark(header.base_offset, 0, HEADER_BYTES)
    begin = _after(batch, mark.position, delta - mark.delta)
    end = _after(batch, begin, stop - delta)
    if end < 0:
        return batch, None
    part = bytearray(HEADER_BYTES)
    part += batch[begin:end]
    own = header._replace(
        length=len(part) - LENGTH_PREFIX_BYTES, last_offset_delta=stop - 1, count=stop - delta
    )
    write_header(part, own)
    view = memoryview(part)
    seal(view)
    return view, Mark(header.base_offset, stop, end)


def _is_plain(header: BatchHeader) -> bool:
    return not header.codec and header.count == header.last_offset_delta + 1


def _after(batch: memoryview, at: int, records: int) -> int:
    """The position after so many records; -1 if they are not there."""
    if at < 0:
        return -1
    try:
        for _ in range(records):
            byte = batch[at]
            length, shift = byte & 0x7F, 7
            while byte > 0x7F:
                if shift > _SHIFT_MAX:
                    return -1
                at += 1
                byte = batch[at]
                length |= (byte & 0x7F) << shift
                shift += 7
            if length & 1:  # less than nothing
                return -1
            at += 1 + (length >> 1)
    except IndexError:
        return -1
    return at if at <= len(batch) else -1
