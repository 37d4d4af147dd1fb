"""Record batches (format version 2) as bytes: read the header, check the whole, stamp it in place.

Nothing here looks at single records, decompresses or copies: a batch of any size costs one
unpack of 61 bytes and one checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from nexus.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCompressionType,
)

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_BYTES = 61
MAGIC = 2
NO_PRODUCER = -1

# What `length` leaves out (offset and itself), and the least that it can be.
LENGTH_PREFIX_BYTES = 12
MIN_LENGTH = HEADER_BYTES - LENGTH_PREFIX_BYTES
# Length, attributes, two deltas, two null or empty lengths and a header count: a byte each.
MIN_RECORD_BYTES = 7

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
_MAX_CODEC = 4
_NOT_FROM_CLIENTS = LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON

_CRC_FROM = 21
_EPOCH_AT = 12
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_SEQUENCE_SPACE = 1 << 31

_HEADER = struct.Struct(">qiibIhiqqqhii")
_unpack_header = _HEADER.unpack_from
_put_i64 = struct.Struct(">q").pack_into
_put_i32 = struct.Struct(">i").pack_into
_put_u32 = struct.Struct(">I").pack_into
_put_i16 = struct.Struct(">h").pack_into


class BatchHeader(NamedTuple):
    """The fixed part of a batch, fields in the order of the wire."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # the wire's name, though tuples have a method of it

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record (they wrap from 2^31-1 to 0); -1 if there are none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_SPACE

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def has_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` says when tombstones may go, instead of a record's time."""
        return self.attributes & DELETE_HORIZON != 0


_make = BatchHeader._make


def read_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """The header at a position, unchecked; raises CorruptMessage if it is cut short."""
    try:
        return _make(_unpack_header(buffer, at))
    except struct.error:
        raise CorruptMessage("a record batch is shorter than its header") from None


def crc_of(batch: memoryview) -> int:
    """The checksum that a batch which fills the buffer should carry."""
    return crc32c(batch[_CRC_FROM:])


def validate(buffer: memoryview, header: BatchHeader, *, compacted: bool = False) -> None:
    """Check the batch that the buffer begins with against its header; raises only CorruptMessage.

    Where `compacted`, records may be missing, even all of them.
    """
    size = header.size
    if header.magic != MAGIC:
        raise CorruptMessage(f"a record batch has magic {header.magic}, not {MAGIC}")
    if size < HEADER_BYTES or size > len(buffer):
        raise CorruptMessage(f"a record batch claims {size} bytes of {len(buffer)}")
    if crc32c(buffer[_CRC_FROM:size]) != header.crc:
        raise CorruptMessage("a record batch does not match its checksum")
    offsets = header.last_offset_delta + 1
    fits = 0 <= header.count <= offsets if compacted else header.count == offsets
    if offsets < 1 or not fits:
        raise CorruptMessage(f"a record batch has {header.count} records on {offsets} offsets")


def check_from_client(buffer: memoryview) -> BatchHeader:
    """The header of the one batch that a client sent, after everything it could get wrong."""
    try:
        header = _make(_unpack_header(buffer))
    except struct.error:
        raise CorruptMessage("a record batch is shorter than its header") from None
    (_, length, _, magic, crc, attributes, last_delta, _, _, producer, epoch, sequence, count) = (
        header
    )
    if magic != MAGIC:
        raise InvalidRecord(f"a record batch has magic {magic}, not {MAGIC}")
    if length + LENGTH_PREFIX_BYTES != len(buffer):
        _refuse_length(length, len(buffer))
    if crc32c(buffer[_CRC_FROM:]) != crc:
        raise CorruptMessage("a record batch does not match its checksum")
    if count < 1 or count != last_delta + 1:
        raise InvalidRecord(f"a record batch has {count} records on {last_delta + 1} offsets")
    if attributes & _NOT_FROM_CLIENTS:
        _refuse_attributes(attributes)
    codec = attributes & CODEC_MASK
    if codec > _MAX_CODEC:
        raise UnsupportedCompressionType(f"codec {codec} is unknown")
    if not codec and count * MIN_RECORD_BYTES > length - MIN_LENGTH:
        raise InvalidRecord(f"{count} records cannot fit a batch of {length} bytes")
    if producer != NO_PRODUCER and (producer < 0 or epoch < 0 or sequence < 0):
        raise InvalidRecord(f"producer {producer} has epoch {epoch} and sequence {sequence}")
    return header


def _refuse_length(length: int, available: int) -> None:
    size = length + LENGTH_PREFIX_BYTES
    if HEADER_BYTES <= size < available:
        raise InvalidRecord("a partition's records must be exactly one batch")
    raise CorruptMessage(f"a record batch claims {size} bytes of {available}")


def _refuse_attributes(attributes: int) -> None:
    if attributes & CONTROL:
        raise InvalidRecord("clients may not write control batches")
    if attributes & TRANSACTIONAL:
        raise InvalidRecord("transactions are not supported")
    if attributes & LOG_APPEND_TIME:
        raise InvalidTimestamp("clients may not set the log append time")
    raise InvalidRecord("clients may not set a delete horizon")


def write_header(batch: memoryview | bytearray, header: BatchHeader) -> None:
    """Put a header in front of its records; `seal` makes the checksum fit."""
    _HEADER.pack_into(batch, 0, *header)


def seal(batch: memoryview) -> None:
    """Write the checksum of a batch that fills the buffer."""
    _put_u32(batch, _CRC_AT, crc_of(batch))


def stamp(batch: memoryview | bytearray, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in the log; the checksum does not cover these two fields."""
    _put_i64(batch, 0, base_offset)
    _put_i32(batch, _EPOCH_AT, leader_epoch)


def stamp_append_time(batch: memoryview, now_ms: int) -> None:
    """Make the broker's clock the timestamp of every record of a batch that fills the buffer."""
    header = read_header(batch)
    _put_i16(batch, _ATTRIBUTES_AT, header.attributes | LOG_APPEND_TIME)
    _put_i64(batch, _MAX_TIMESTAMP_AT, now_ms)
    seal(batch)


def iter_headers(buffer: Buffer, at: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers of the whole batches from a position on; a cut tail is left out.

    Only lengths are checked. Raises CorruptMessage where a length makes it impossible to go on.
    """
    end = len(buffer)
    while end - at >= HEADER_BYTES:
        header = _make(_unpack_header(buffer, at))
        if header.length < MIN_LENGTH:
            raise CorruptMessage(f"a record batch at {at} claims {header.size} bytes")
        if header.size > end - at:
            return
        yield at, header
        at += header.size
