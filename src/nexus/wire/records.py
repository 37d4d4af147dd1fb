"""Single records inside a batch: for time search, compaction, key checks and our own topics.

Reading is bounded (by the batch's length, and by a limit where it is compressed) and raises only
typed errors: CorruptMessage, InvalidRecord, UnsupportedCompressionType or DecompressionBomb.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nexus.wire.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    MIN_RECORD_BYTES,
    BatchHeader,
    read_header,
    seal,
    write_header,
)
from nexus.wire.compression import Codec, compress, decompress
from nexus.wire.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType

DECOMPRESSED_MAX = 64 << 20
_NULL = 1  # the length -1

Header = tuple[str, bytes | None]
# A record as encoding takes it: its fields are those of `Record`, in the same order.
Row = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]


class Record(NamedTuple):
    """One message, with its absolute offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class RecordKey(NamedTuple):
    """What compaction asks of a record."""

    key: bytes | None
    is_tombstone: bool
    offset_delta: int


# Reading ------------------------------------------------------------------------------------


def decode_records(batch: memoryview, limit_bytes: int = DECOMPRESSED_MAX) -> list[Record]:
    """All records of a batch; `iter_records` needs less memory where one is enough."""
    return list(iter_records(batch, limit_bytes))


def iter_records(batch: memoryview, limit_bytes: int = DECOMPRESSED_MAX) -> Iterator[Record]:
    """The records of the batch that the buffer begins with, one at a time."""
    header = read_header(batch)
    data = bytes(_records_section(batch, header, limit_bytes))  # quicker than a view to look at
    append_time = header.max_timestamp if header.has_log_append_time else None
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    known: dict[bytes, tuple[Header, ...]] = {}  # most records of a batch have the same headers
    for body, end, time_delta, delta in _walk(data, header):
        key, at = _read_bytes(data, body, end)
        value, at = _read_bytes(data, at, end)
        told = data[at:end]
        headers = known.get(told)
        if headers is None:
            headers = known[told] = _read_headers(data, at, end)
        timestamp = append_time
        if timestamp is None:
            timestamp = _as_int64(base_timestamp + time_delta) if time_delta else base_timestamp
        yield Record(base_offset + delta, timestamp, key, value, headers)


def iter_keys(batch: memoryview, limit_bytes: int = DECOMPRESSED_MAX) -> Iterator[RecordKey]:
    """Key, whether the value is null, and offset delta of each record; values are not read."""
    header = read_header(batch)
    data = bytes(_records_section(batch, header, limit_bytes))
    for body, end, _, delta in _walk(data, header):
        key, after_key = _read_bytes(data, body, end)
        value_bytes, after = _read_varint(data, after_key, end)
        if not -1 <= value_bytes <= end - after:
            raise InvalidRecord("a record's value is longer than the record")
        yield RecordKey(key, value_bytes < 0, delta)


def _records_section(batch: memoryview, header: BatchHeader, limit: int) -> memoryview:
    """The records' bytes, unpacked, and found long enough for their count."""
    if header.magic != MAGIC or not HEADER_BYTES <= header.size <= len(batch):
        raise CorruptMessage("a record batch is cut short")
    data = batch[HEADER_BYTES : header.size]
    if header.codec:
        data = decompress(_codec_of(header), data, limit) if header.count else data[:0]
    if not 0 <= header.count * MIN_RECORD_BYTES <= len(data):
        raise InvalidRecord(f"{header.count} records cannot fit {len(data)} bytes")
    return data


def _codec_of(header: BatchHeader) -> Codec:
    try:
        return Codec(header.codec)
    except ValueError:
        raise UnsupportedCompressionType(f"codec {header.codec} is unknown") from None


def _walk(data: bytes, header: BatchHeader) -> Iterator[tuple[int, int, int, int]]:
    """Where each record's key begins, where the record ends, its time and offset deltas."""
    at, total, last, last_delta = 0, len(data), -1, header.last_offset_delta
    for _ in range(header.count):
        length, at = _read_varint(data, at, total)
        end = at + length
        if length < MIN_RECORD_BYTES - 1 or end > total:
            raise InvalidRecord("a record is cut short")
        time_delta, body = (0, at + 2) if not data[at + 1] else _read_varint(data, at + 1, end)
        delta, body = _read_varint(data, body, end)
        if not last < delta <= last_delta:
            raise InvalidRecord(f"a record has offset delta {delta} after {last}")
        yield body, end, time_delta, delta
        at, last = end, delta
    if at != total:
        raise InvalidRecord(f"{total - at} bytes follow the last record of a batch")


def _as_int64(value: int) -> int:
    """Times far apart overflow as they do in Java, so that every one of them survives."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag number of at most 64 bits, and the position after it."""
    if at < end and (byte := data[at]) < 0x80:  # most of them
        return (byte >> 1) ^ -(byte & 1), at + 1
    if at + 1 < end and (high := data[at + 1]) < 0x80:  # most others
        raw = byte & 0x7F | high << 7
        return (raw >> 1) ^ -(raw & 1), at + 2
    raw = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> 64:
                break
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
        if shift > 63:
            break
    raise InvalidRecord("a record holds a number that is cut short or too long")


def _read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    if at < end and data[at] == _NULL:
        return None, at + 1
    length, at = _read_varint(data, at, end)
    if length < 0:
        if length != -1:
            raise InvalidRecord(f"a record holds a field of {length} bytes")
        return None, at
    stop = at + length
    if stop > end:
        raise InvalidRecord("a record's field is longer than the record")
    return data[at:stop], stop


def _read_headers(data: bytes, at: int, end: int) -> tuple[Header, ...]:
    count, at = _read_varint(data, at, end)
    # Two lengths, a byte each, are the least that a header takes.
    if not 0 <= count * 2 <= end - at:
        raise InvalidRecord(f"a record cannot hold {count} headers")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at, end)
        value, at = _read_bytes(data, at, end)
        if name is None:
            raise InvalidRecord("a record's header has no name")
        # Whatever a client called it comes out again as the same bytes.
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    if at != end:
        raise InvalidRecord("bytes follow a record's last header")
    return tuple(headers)


# Writing ------------------------------------------------------------------------------------


def encode_batch(
    records: Sequence[Row],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = 0,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    last_offset_delta: int | None = None,
    flags: int = 0,
) -> bytearray:
    """A batch of records whose offsets begin at `base_offset` or above and ascend.

    Timestamps default to those of the records, and the last offset to the last record's: give
    them where compaction left gaps or nothing. `flags` are attributes beside the codec.
    """
    if base_timestamp is None:
        base_timestamp = records[0][1] if records else -1
    if max_timestamp is None:
        max_timestamp = max((timestamp for _, timestamp, _, _, _ in records), default=-1)
    last = records[-1][0] - base_offset if records else 0
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=flags & ~CODEC_MASK,
        last_offset_delta=last if last_offset_delta is None else last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(records),
    )
    return _assemble(header, _encode_records(records, base_offset, base_timestamp), codec)


def recompress(batch: memoryview, codec: Codec, limit_bytes: int = DECOMPRESSED_MAX) -> bytearray:
    """The same batch with its records packed by another codec; nothing else of it changes."""
    header = read_header(batch)
    return _assemble(header, _records_section(batch, header, limit_bytes), codec)


def _assemble(header: BatchHeader, section: bytes | memoryview, codec: Codec) -> bytearray:
    """A sealed batch of the header, its length and codec set, and the records' bytes."""
    body = compress(codec, section) if codec and section else section
    batch = bytearray(HEADER_BYTES)
    batch += body
    attributes = header.attributes & ~CODEC_MASK | codec
    length = len(batch) - LENGTH_PREFIX_BYTES
    write_header(batch, header._replace(length=length, attributes=attributes))
    with memoryview(batch) as view:
        seal(view)
    return batch


def _encode_records(records: Sequence[Row], base_offset: int, base_timestamp: int) -> bytes:
    out: list[bytes] = []
    last = -1
    # Most records of a batch share their time and their headers.
    time, start = base_timestamp, b"\0\0"
    said: tuple[Header, ...] = ()
    head = b"\0"
    for offset, timestamp, key, value, headers in records:
        delta = offset - base_offset
        if delta <= last:
            raise ValueError(f"offset {offset} does not ascend from {base_offset}")
        last = delta
        if timestamp != time:
            time, start = timestamp, b"\0" + _varint(_as_int64(timestamp - base_timestamp))
        if headers is not said:
            said, head = headers, _headers(headers)
        place = _SMALL[delta] if delta < _SMALL_COUNT else _any_varint(delta)
        name = b"\1" if key is None else _varint(len(key)) + key
        data = value or b""
        size = len(data)
        if value is None:
            length = b"\1"
        else:
            length = _SMALL[size] if size < _SMALL_COUNT else _any_varint(size)
        size += len(start) + len(place) + len(name) + len(length) + len(head)
        whole = _SMALL[size] if size < _SMALL_COUNT else _any_varint(size)
        out += (whole, start, place, name, length, data, head)
    return b"".join(out)


def _headers(headers: tuple[Header, ...]) -> bytes:
    out = [_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        out += (_varint(len(encoded)), encoded)
        out.append(b"\1" if value is None else _varint(len(value)) + value)
    return b"".join(out)


def _varint(value: int) -> bytes:
    return _SMALL[value] if 0 <= value < _SMALL_COUNT else _any_varint(value)


def _any_varint(value: int) -> bytes:
    out = bytearray()
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


# Lengths and deltas are mostly small, and there are six in each record.
_SMALL_COUNT = 4096
_SMALL = [_any_varint(value) for value in range(_SMALL_COUNT)]
