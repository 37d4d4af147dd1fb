"""Arrow messages that are not what they should be."""

import random

import pyarrow as pa
import pytest

from nexus.telemetry.arrow_codec import MAX_BYTES, MAX_READINGS, decode_arrow, encode_arrow
from nexus.telemetry.codec import ARROW_TYPE, decode_messages
from nexus.telemetry.errors import UnreadableMessage
from nexus.telemetry.reading import SOURCE_SCHEMA, plain
from support.readings import fleet, readings

GOOD = encode_arrow(fleet(50, gpus=8))


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


@pytest.mark.parametrize("value", [b"", b"\x00", b"x" * 1000, GOOD[:100], GOOD[:-100], b"{}"])
def test_bytes_that_are_no_stream_are_unreadable(value: bytes) -> None:
    with pytest.raises(UnreadableMessage):
        decode_arrow(value)


def test_a_stream_of_something_else_names_what_is_missing() -> None:
    with pytest.raises(UnreadableMessage, match="columns timestamp, source_metric"):
        decode_arrow(stream(pa.table({"a": [1]})))


def test_a_stream_with_a_hole_in_it_is_unreadable() -> None:
    table = readings({}, {})
    holed = pa.array([1.0, None])
    loose = table.set_column(2, pa.field("source_value", pa.float64()), holed)
    with pytest.raises(UnreadableMessage, match="source_value has 1 nulls"):
        decode_arrow(stream(loose))


def test_a_stream_with_columns_of_other_types_is_unreadable() -> None:
    table = readings({})
    wrong = table.set_column(2, "source_value", pa.array(["many"]))
    with pytest.raises(UnreadableMessage, match="source_value does not fit"):
        decode_arrow(stream(wrong))


def test_plain_streams_of_other_writers_are_read() -> None:
    table = fleet(100, gpus=8)
    more = table.append_column("extra", pa.array(range(100)))
    nanos = more.set_column(0, "timestamp", more["timestamp"].cast(pa.timestamp("ns", "UTC")))
    assert plain(decode_arrow(stream(nanos))).equals(plain(table))


def test_a_message_over_the_limits_is_refused() -> None:
    with pytest.raises(UnreadableMessage, match="bytes are more than"):
        decode_arrow(b"x" * (MAX_BYTES + 1))
    empty = pa.table(
        [pa.nulls(MAX_READINGS + 1, f.type) for f in SOURCE_SCHEMA], SOURCE_SCHEMA.names
    )
    with pytest.raises(UnreadableMessage):
        decode_arrow(stream(empty))


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    table = readings({"pod": "x" * (65 << 20)})
    bomb = encode_arrow(table)
    assert len(bomb) < MAX_BYTES
    with pytest.raises(UnreadableMessage, match="unpacks to more than"):
        decode_arrow(bomb)


def test_a_dictionary_may_claim_no_more_than_memory_has() -> None:
    claimed = bytearray(GOOD)
    size = len(fleet(50, gpus=8)) * 8  # of the values' buffer, before compression
    at = claimed.find(size.to_bytes(8, "little"))
    claimed[at : at + 8] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(UnreadableMessage):
        decode_arrow(bytes(claimed))


def test_damage_anywhere_gives_readings_or_an_error_and_nothing_else() -> None:
    rng = random.Random(7)
    for _ in range(120):
        damaged = bytearray(GOOD)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        found = decode_messages([bytes(damaged), GOOD], [ARROW_TYPE, ARROW_TYPE])
        assert found.origin.to_pylist()[-50:] == [1] * 50
        assert all(error.index == 0 and error.reason for error in found.errors)
        plain(found.table).validate(full=True)
