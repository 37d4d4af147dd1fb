"""Batches as bytes: what is read, what is refused, what is stamped."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from nexus.wire.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    check_from_client,
    crc_of,
    iter_headers,
    read_header,
    stamp,
    stamp_append_time,
    validate,
)
from nexus.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    ProtocolError,
    UnsupportedCompressionType,
)


def kafka_batch(
    count: int = 3, producer_id: int = -1, epoch: int = -1, sequence: int = -1
) -> bytearray:
    """A batch as kafka-python builds it."""
    builder = DefaultRecordBatchBuilder(2, 0, False, producer_id, epoch, sequence, 1 << 20)
    for n in range(count):
        builder.append(n, 1000 + n, b"key", b"value %d" % n, [("h", b"x")])
    return bytearray(builder.build())


def put(batch: bytearray, at: int, form: str, *values: int) -> bytearray:
    """Change a field and make the checksum right again."""
    struct.pack_into(">" + form, batch, at, *values)
    with memoryview(batch) as view:
        crc = crc_of(view)
    struct.pack_into(">I", batch, 17, crc)
    return batch


def check(batch: bytes | bytearray) -> BatchHeader:
    return check_from_client(memoryview(batch))


def test_a_header_reads_as_kafka_python_reads_it() -> None:
    raw = kafka_batch(5, producer_id=77, epoch=3, sequence=12)
    header, theirs = read_header(raw), DefaultRecordBatch(bytes(raw))
    assert header.size == len(raw)
    assert header.crc == theirs.crc
    assert header.magic == theirs.magic == 2
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1004)
    assert (header.base_offset, header.last_offset, header.next_offset) == (0, 4, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 12)
    assert (header.last_sequence, header.count) == (16, 5)


def test_sequences_wrap_after_the_largest() -> None:
    raw = kafka_batch(3, producer_id=1, epoch=0, sequence=2**31 - 2)
    assert read_header(raw).last_sequence == 0


def test_a_batch_without_sequences_has_no_last_one() -> None:
    assert read_header(kafka_batch()).last_sequence == -1


def test_attributes_are_told_apart() -> None:
    header = read_header(kafka_batch())
    assert header.attributes == 0
    all_set = header._replace(attributes=3 | 0x78)
    assert all_set.codec == 3
    assert all_set.is_control
    assert all_set.is_transactional
    assert all_set.has_log_append_time
    assert all_set.has_delete_horizon


def test_a_clients_batch_is_accepted_and_its_header_returned() -> None:
    raw = kafka_batch(4)
    assert check(raw) == read_header(raw)


@pytest.mark.parametrize("size", [0, 1, 17, HEADER_BYTES - 1])
def test_less_than_a_header_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptMessage):
        check(kafka_batch()[:size])
    with pytest.raises(CorruptMessage):
        read_header(kafka_batch()[:size])


def test_a_cut_batch_is_corrupt() -> None:
    with pytest.raises(CorruptMessage):
        check(kafka_batch()[:-1])


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31), 2**31 - 1])
def test_a_lie_about_the_length_is_corrupt(length: int) -> None:
    batch = put(kafka_batch(), 8, "i", length)
    with pytest.raises(CorruptMessage):
        check(batch)
    with pytest.raises(CorruptMessage):
        validate(memoryview(batch), read_header(batch))


def test_every_flipped_bit_under_the_checksum_is_found() -> None:
    raw = kafka_batch(1)
    for bit in range(17 * 8, len(raw) * 8):
        bad = bytearray(raw)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptMessage):
            check(bad)
        with pytest.raises(CorruptMessage):
            validate(memoryview(bad), read_header(bad))


def test_two_batches_in_one_partition_are_refused() -> None:
    with pytest.raises(InvalidRecord, match="exactly one"):
        check(kafka_batch() + kafka_batch())


@pytest.mark.parametrize(
    ("what", "at", "form", "value", "error"),
    [
        ("an old message format", 16, "b", 1, InvalidRecord),
        ("a control batch", 21, "h", CONTROL, InvalidRecord),
        ("a transactional batch", 21, "h", TRANSACTIONAL, InvalidRecord),
        ("a delete horizon", 21, "h", DELETE_HORIZON, InvalidRecord),
        ("the broker's timestamps", 21, "h", LOG_APPEND_TIME, InvalidTimestamp),
        ("an unknown codec", 21, "h", 5, UnsupportedCompressionType),
        ("a count that is not the offsets'", 57, "i", 2, InvalidRecord),
        ("no records", 57, "i", 0, InvalidRecord),
        ("fewer than no records", 57, "i", -1, InvalidRecord),
        ("offsets that are not the count's", 23, "i", 9, InvalidRecord),
        ("an impossible producer", 43, "q", -2, InvalidRecord),
    ],
)
def test_a_client_may_not_send(
    what: str, at: int, form: str, value: int, error: type[ProtocolError]
) -> None:
    with pytest.raises(error):
        check(put(kafka_batch(3), at, form, value))


def test_more_records_than_bytes_allow_are_refused() -> None:
    batch = put(kafka_batch(3), 23, "i", 999_999)
    with pytest.raises(InvalidRecord, match="cannot fit"):
        check(put(batch, 57, "i", 1_000_000))


@pytest.mark.parametrize(("epoch", "sequence"), [(0, -1), (-1, 0), (-1, -1)])
def test_a_producer_id_needs_an_epoch_and_a_sequence(epoch: int, sequence: int) -> None:
    batch = put(kafka_batch(), 43, "qhi", 5, epoch, sequence)
    with pytest.raises(InvalidRecord):
        check(batch)


def test_a_valid_batch_may_be_followed_by_others() -> None:
    raw = kafka_batch(2) + kafka_batch(3)
    validate(memoryview(raw), read_header(raw))


def test_another_format_in_a_log_is_corrupt() -> None:
    batch = put(kafka_batch(), 16, "b", 1)
    with pytest.raises(CorruptMessage, match="magic 1"):
        validate(memoryview(batch), read_header(batch))


def test_only_compacted_batches_may_lack_records() -> None:
    for count in (0, 2):
        batch = put(kafka_batch(3), 57, "i", count)
        validate(memoryview(batch), read_header(batch), compacted=True)
        with pytest.raises(CorruptMessage):
            validate(memoryview(batch), read_header(batch))
    batch = put(kafka_batch(3), 57, "i", 4)
    with pytest.raises(CorruptMessage):
        validate(memoryview(batch), read_header(batch), compacted=True)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_a_stamp_moves_a_batch_and_leaves_it_valid(offset: int, epoch: int) -> None:
    raw = kafka_batch()
    before = read_header(raw)
    stamp(memoryview(raw), offset, epoch)
    after = check(raw)
    assert after == before._replace(base_offset=offset, leader_epoch=epoch)


def test_append_time_replaces_every_timestamp() -> None:
    raw = kafka_batch()
    stamp_append_time(memoryview(raw), 5_000)
    header = read_header(raw)
    validate(memoryview(raw), header)
    assert header.has_log_append_time
    theirs = DefaultRecordBatch(bytes(raw))
    assert [record.timestamp for record in theirs] == [5_000] * 3


def test_headers_of_whole_batches_are_listed_and_a_cut_tail_left_out() -> None:
    first, second = kafka_batch(2), kafka_batch(7)
    raw = first + second + kafka_batch(1)[:-1]
    found = [(at, header.count) for at, header in iter_headers(raw)]
    assert found == [(0, 2), (len(first), 7)]
    assert [at for at, _ in iter_headers(raw, len(first))] == [len(first)]


@pytest.mark.parametrize("length", [-12, -1, 0, 48])
def test_a_list_of_headers_never_stands_still(length: int) -> None:
    bad = put(kafka_batch(), 8, "i", length)
    with pytest.raises(CorruptMessage):
        list(iter_headers(bad))


@given(st.binary(max_size=200))
def test_rubbish_gives_only_typed_errors(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        check(data)


@given(st.data())
def test_a_batch_with_any_header_gives_only_typed_errors(data: st.DataObject) -> None:
    batch = kafka_batch()
    at = data.draw(st.integers(0, HEADER_BYTES - 1))
    batch[at] = data.draw(st.integers(0, 255))
    try:
        header = check(put(batch, 0, ""))
    except ProtocolError:
        return
    assert header.size == len(batch)
