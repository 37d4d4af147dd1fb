"""Cut batches: exactly the records that were asked for, with the offsets that they always had."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nexus.wire.batch import HEADER_BYTES, read_header, seal, validate
from nexus.wire.compression import Codec
from nexus.wire.cutting import Mark, cut
from nexus.wire.records import Record, decode_records, encode_batch

BASE = 1_000
SIZES = (0, 1, 20, 63, 64, 8_191, 9_000)  # lengths of one, two and three bytes


def records_of(sizes: list[int]) -> list[Record]:
    headers = (("content-type", b"application/json"),)
    return [
        Record(BASE + at, 5_000 + at, b"k" if at % 3 else None, b"v" * size, headers)
        for at, size in enumerate(sizes)
    ]


@settings(max_examples=50)
@given(sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=20), data=st.data())
def test_a_part_has_its_records_and_no_others(sizes: list[int], data: st.DataObject) -> None:
    records = records_of(sizes)
    batch = memoryview(encode_batch(records, base_offset=BASE))
    mark: Mark | None = None
    for _ in range(5):
        first = data.draw(st.integers(0, len(records) - 1))
        last = data.draw(st.integers(first, len(records) - 1))
        part, mark = cut(batch, read_header(batch), BASE + first, BASE + last, mark)
        validate(part, read_header(part), compacted=True)
        assert decode_records(part) == records[first : last + 1]


def test_who_comes_for_the_next_need_not_count_again() -> None:
    batch = memoryview(encode_batch(records_of([10] * 9), base_offset=BASE))
    _, mark = cut(batch, read_header(batch), BASE, BASE + 3)
    assert mark is not None
    assert mark.delta == 4
    first_lost = bytearray(batch)
    first_lost[HEADER_BYTES] = 0xFF  # whoever begins there fails
    part, _ = cut(memoryview(first_lost), read_header(batch), BASE + 4, BASE + 5, mark)
    assert [record.offset for record in decode_records(part)] == [BASE + 4, BASE + 5]


def test_what_cannot_be_cut_stays_whole() -> None:
    records = records_of([50] * 8)
    packed = memoryview(encode_batch(records, base_offset=BASE, codec=Codec.GZIP))
    holed = memoryview(encode_batch(records[::2], base_offset=BASE))
    for batch in (packed, holed):
        part, _ = cut(batch, read_header(batch), BASE + 2, BASE + 3)
        assert part is batch


@given(st.binary(min_size=7 * 8, max_size=300))
def test_records_that_make_no_sense_stay_whole_or_are_cut_within_the_batch(noise: bytes) -> None:
    sound = encode_batch(records_of([0] * 8), base_offset=BASE)
    batch = memoryview(sound[:HEADER_BYTES] + noise)
    header = read_header(batch)._replace(length=len(batch) - 12)
    seal(batch)
    part, _ = cut(batch, header, BASE + 3, BASE + 5)
    assert len(part) <= len(batch)
