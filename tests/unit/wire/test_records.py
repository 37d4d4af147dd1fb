"""Single records: both ways against the builders of two clients; bad input gives typed errors."""

from __future__ import annotations

import struct
from typing import Any

import aiokafka.record.default_records as aio
import kafka.record.default_records as kafka_python
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus.wire.batch import (
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    check_from_client,
    crc_of,
    read_header,
    stamp,
    stamp_append_time,
    validate,
)
from nexus.wire.compression import Codec, DecompressionBomb
from nexus.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    ProtocolError,
    UnsupportedCompressionType,
)
from nexus.wire.records import (
    Record,
    RecordKey,
    decode_records,
    encode_batch,
    iter_keys,
    iter_records,
    recompress,
)

every_codec = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
timestamps = st.integers(0, 2**62)
fields = st.none() | st.binary(max_size=100)
headers = st.lists(st.tuples(st.text(max_size=10), fields), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn, gaps: bool = False) -> list[Record]:
    """Records from offset 0 on; with gaps, as compaction leaves them."""
    steps = st.integers(1, 1000 if gaps else 1)
    offset = -1
    records: list[Record] = []
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(steps) if records else 1
        made = (draw(timestamps), draw(fields), draw(fields), draw(headers))
        records.append(Record(offset, *made))
    return records


def few(count: int = 3, value: bytes | None = b"value") -> list[Record]:
    return [Record(n, 1000 + n, b"k%d" % n, value, (("h", b"x"),)) for n in range(count)]


def view_of(records: list[Record], **options: Any) -> memoryview:
    return memoryview(encode_batch(records, **options))


def raw_batch(section: bytes, count: int, attributes: int = 0) -> memoryview:
    """A batch with any bytes for records, and a checksum that fits."""
    batch = encode_batch([], last_offset_delta=count - 1, flags=attributes) + section
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, attributes)
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">I", batch, 17, crc_of(memoryview(batch)))
    return memoryview(batch)


# Against other people's code -----------------------------------------------------------------


def built_by(builders: Any, records: list[Record], codec: Codec) -> memoryview:
    builder = builders.DefaultRecordBatchBuilder(2, codec.value, 0, -1, -1, -1, 1 << 24)
    for record in records:
        builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    return memoryview(bytearray(builder.build()))


def read_by(builders: Any, batch: memoryview) -> list[Record]:
    return [
        Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
        for each in builders.DefaultRecordBatch(bytes(batch))
    ]


@given(record_lists())
def test_kafka_python_reads_ours_and_we_read_kafka_pythons(records: list[Record]) -> None:
    for codec in (Codec.NONE, Codec.GZIP):
        assert decode_records(built_by(kafka_python, records, codec)) == records
        assert read_by(kafka_python, view_of(records, codec=codec)) == records


@given(st.sampled_from(list(Codec)), record_lists())
def test_aiokafka_reads_ours_and_we_read_aiokafkas(codec: Codec, records: list[Record]) -> None:
    assert decode_records(built_by(aio, records, codec)) == records
    assert read_by(aio, view_of(records, codec=codec)) == records


def test_an_uncompressed_batch_is_byte_for_byte_kafka_pythons() -> None:
    assert view_of(few()) == built_by(kafka_python, few(), Codec.NONE)


# Round trips ---------------------------------------------------------------------------------


@given(record_lists(gaps=True), st.integers(0, 2**40), st.sampled_from(list(Codec)))
def test_offsets_with_gaps_survive(records: list[Record], base: int, codec: Codec) -> None:
    moved = [record._replace(offset=record.offset + base) for record in records]
    batch = view_of(moved, base_offset=base, codec=codec)
    validate(batch, read_header(batch), compacted=True)
    assert decode_records(batch) == moved


@given(record_lists())
def test_a_batch_of_ours_passes_for_a_clients(records: list[Record]) -> None:
    header = check_from_client(view_of(records, producer_id=7, producer_epoch=1, base_sequence=9))
    assert header.count == len(records)
    assert header.base_timestamp == records[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 9)


def test_offsets_follow_the_stamp() -> None:
    batch = view_of(few())
    stamp(batch, 500, 3)
    assert [record.offset for record in iter_records(batch)] == [500, 501, 502]


def test_append_time_is_every_records_time() -> None:
    batch = view_of(few())
    stamp_append_time(batch, 9_999)
    assert [record.timestamp for record in iter_records(batch)] == [9_999] * 3


def test_a_batch_emptied_by_compaction_keeps_its_offsets_and_sequence() -> None:
    batch = view_of(
        [], base_offset=40, last_offset_delta=9, producer_id=5, producer_epoch=0, base_sequence=30
    )
    header = read_header(batch)
    validate(batch, header, compacted=True)
    assert (header.next_offset, header.last_sequence, header.count) == (50, 39, 0)
    assert decode_records(batch) == []
    assert decode_records(memoryview(recompress(batch, Codec.ZSTD))) == []


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    batch = view_of(few(), base_timestamp=77_000, flags=DELETE_HORIZON)
    header = read_header(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp == 77_000
    assert decode_records(batch) == few()


def test_a_header_name_that_is_not_text_survives() -> None:
    section = b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01"
    batch = raw_batch(section, 1)
    [record] = decode_records(batch)
    assert decode_records(view_of([record._replace(timestamp=-1)])) == [record]


def test_records_must_ascend_from_the_base_offset() -> None:
    with pytest.raises(ValueError, match="does not ascend"):
        encode_batch(few()[::-1])
    with pytest.raises(ValueError, match="does not ascend"):
        encode_batch(few(), base_offset=1)


# Recompression and keys ----------------------------------------------------------------------


@given(record_lists(), st.sampled_from(list(Codec)), st.sampled_from(list(Codec)))
def test_recompression_changes_the_codec_and_nothing_else(
    records: list[Record], before: Codec, after: Codec
) -> None:
    given_batch = view_of(records, codec=before, producer_id=3, producer_epoch=0, base_sequence=4)
    made = memoryview(recompress(given_batch, after))
    old, new = check_from_client(given_batch), check_from_client(made)
    assert new.codec == after
    same = {"length": 0, "crc": 0, "attributes": 0}
    assert new._replace(**same) == old._replace(**same)
    assert decode_records(made) == records


def test_recompression_keeps_the_append_time() -> None:
    batch = view_of(few(), codec=Codec.GZIP)
    stamp_append_time(batch, 9_999)
    made = memoryview(recompress(batch, Codec.LZ4))
    assert read_header(made).attributes == LOG_APPEND_TIME | Codec.LZ4


@every_codec
def test_keys_are_listed_without_their_values(codec: Codec) -> None:
    records = [
        Record(0, 1, b"a", b"1"),
        Record(1, 1, None, b"2"),
        Record(4, 1, b"", None, (("h", None),)),
    ]
    assert list(iter_keys(view_of(records, codec=codec))) == [
        RecordKey(b"a", False, 0),
        RecordKey(None, False, 1),
        RecordKey(b"", True, 4),
    ]


# Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_unpacks_beyond_the_limit_is_a_bomb(codec: Codec) -> None:
    batch = view_of(few(value=bytes(100_000)), codec=codec)
    with pytest.raises(DecompressionBomb):
        decode_records(batch, 10_000)
    with pytest.raises(DecompressionBomb):
        next(iter_keys(batch, 10_000))
    with pytest.raises(DecompressionBomb):
        recompress(batch, Codec.NONE, 10_000)


def test_an_unknown_codec_is_typed() -> None:
    with pytest.raises(UnsupportedCompressionType):
        decode_records(raw_batch(b"\x0c\x00\x00\x00\x01\x01\x00", 1, attributes=6))


@pytest.mark.parametrize("size", [0, 60, 61, 70])
def test_a_cut_batch_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptMessage):
        decode_records(view_of(few())[:size])


GOOD = b"\x0c\x00\x00\x00\x01\x01\x00"


def test_the_shortest_record_is_seven_bytes() -> None:
    assert decode_records(raw_batch(GOOD, 1)) == [Record(0, -1, None, None)]


@pytest.mark.parametrize(
    ("section", "count"),
    [
        pytest.param(b"", 1, id="no bytes"),
        pytest.param(GOOD, 2, id="fewer than the count"),
        pytest.param(GOOD, -1, id="negative count"),
        pytest.param(GOOD, 2**31 - 1, id="absurd count"),
        pytest.param(GOOD + GOOD, 2, id="an offset twice"),
        pytest.param(GOOD + GOOD, 1, id="more than the count"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00", 1, id="longer than the batch"),
        pytest.param(b"\x01\x00\x00\x00\x01\x01\x00", 1, id="negative length"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\xff", 1, id="endless number"),
        pytest.param(b"\x0c\x00\x00\x02\x01\x01\x00", 1, id="offset beyond the last"),
        pytest.param(b"\x0c\x00\x00\x01\x01\x01\x00", 1, id="negative offset delta"),
        pytest.param(b"\x0c\x00\x00\x00\x03\x01\x00", 1, id="key of -2 bytes"),
        pytest.param(b"\x0c\x00\x00\x00\x10\x01\x00", 1, id="key beyond the record"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x10\x00", 1, id="value beyond the record"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x03\x00", 1, id="value of -2 bytes"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x02", 1, id="header that is not there"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x01", 1, id="negative header count"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1, id="bytes after the headers"),
        pytest.param(b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1, id="header without a name"),
    ],
)
def test_malformed_records_are_invalid(section: bytes, count: int) -> None:
    with pytest.raises(InvalidRecord):
        decode_records(raw_batch(section, count))


def test_timestamps_farther_apart_than_64_bits_survive() -> None:
    records = [Record(0, -(2**63), None, None), Record(1, 2**63 - 1, None, None)]
    assert decode_records(view_of(records)) == records


@given(st.binary(max_size=80), st.integers(0, 12), st.sampled_from([0, 1, 2, 3, 4, 7]))
@settings(max_examples=300)
def test_rubbish_for_records_gives_only_typed_errors(
    section: bytes, count: int, attributes: int
) -> None:
    _read_or_refuse(raw_batch(section, count, attributes))


@given(record_lists(), st.sampled_from(list(Codec)), st.data())
@settings(max_examples=300)
def test_flipped_bytes_give_only_typed_errors(
    records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    batch = encode_batch(records, codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    _read_or_refuse(memoryview(batch))


def _read_or_refuse(batch: memoryview) -> None:
    try:
        records = decode_records(batch, 1 << 20)
    except ProtocolError:
        return
    assert len(records) * 7 <= max(1 << 20, len(batch) - HEADER_BYTES)
    keys = [key.key for key in iter_keys(batch, 1 << 20)]
    assert keys == [record.key for record in records]
