"""Packing: every reading once, a GPU's in order in one partition, dead letters with a reason."""

import pyarrow as pa
import pytest

from nexus.queue.partitioners import murmur2, partitioner_named
from nexus.queue.port import Message
from nexus.streamer.checkpoint import Progress
from nexus.streamer.parcels import Encoding, Packer, Parcel, Piece, Stamp
from nexus.streamer.sources.port import Rejected
from nexus.telemetry.codec import decode_messages
from nexus.telemetry.reading import plain
from support.queues import numbered

NOW_US = 1_752_871_354_000_000
ENCODINGS: list[Encoding] = ["arrow", "json"]


def packer(
    encoding: Encoding = "arrow", partitioner: str = "murmur2", rows: int = 10_000
) -> Packer:
    return Packer(
        encoding,
        partitioner_named(partitioner),
        Stamp("c1", "csv"),
        rows_max=rows,
        now_us=lambda: NOW_US,
        now_s=lambda: 5.0,
    )


def decoded(messages: list[Message]) -> pa.Table:
    types = [dict(message.headers)["content-type"].decode() for message in messages]
    found = decode_messages([message.value for message in messages], types)
    assert found.errors == []
    return plain(found.table)


def by_partition(parcel: Parcel) -> dict[int, list[tuple[str, float]]]:
    found: dict[int, list[tuple[str, float]]] = {}
    for message in parcel.messages:
        table = decoded([message])
        assert message.partition is not None
        rows = found.setdefault(message.partition, [])
        rows += zip(
            table.column("uuid").to_pylist(), table.column("source_value").to_pylist(), strict=True
        )
    return found


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_gpus_readings_are_in_order_in_the_partition_of_its_key(encoding: Encoding) -> None:
    pieces = [Piece(numbered(0, 50, gpus=7)), Piece(numbered(50, 50, gpus=7))]
    parcel = packer(encoding).pack(pieces, 4)
    assert parcel.readings == 100
    found = by_partition(parcel)
    assert sorted(v for rows in found.values() for _, v in rows) == [float(n) for n in range(100)]
    for partition, rows in found.items():
        for uuid in {uuid for uuid, _ in rows}:
            assert murmur2(uuid.encode()) % 4 == partition
            values = [value for each, value in rows if each == uuid]
            assert values == sorted(values)


def test_an_arrow_message_says_what_it_is_and_how_much_it_holds() -> None:
    parcel = packer(rows=20).pack([Piece(numbered(0, 50, gpus=1))], 4)
    assert [dict(m.headers)["count"] for m in parcel.messages] == [b"20", b"20", b"10"]
    headers = dict(parcel.messages[0].headers)
    assert headers["content-type"] == b"application/vnd.apache.arrow.stream"
    assert (headers["source"], headers["version"]) == (b"csv", b"1")
    assert {m.key for m in parcel.messages} == {None}


def test_a_json_message_is_one_reading_keyed_by_its_gpu() -> None:
    parcel = packer("json").pack([Piece(numbered(0, 3))], 4)
    assert [m.key for m in parcel.messages] == [b"GPU-0", b"GPU-1", b"GPU-2"]
    assert dict(parcel.messages[0].headers)["content-type"] == b"application/json"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_reading_gets_the_cluster_and_the_time_it_was_taken(encoding: Encoding) -> None:
    table = numbered(0, 4)
    named = table.set_column(
        table.schema.get_field_index("cluster"), "cluster", pa.array(["", "other", "", ""])
    )
    parcel = packer(encoding).pack([Piece(named.drop_columns(["ingested"]))], 1)
    found = decoded(parcel.messages).sort_by("source_value")
    assert found.column("cluster").to_pylist() == ["c1", "other", "c1", "c1"]
    assert set(found.column("ingested").cast(pa.int64()).to_pylist()) == {NOW_US}


def test_gpus_without_a_uuid_are_told_apart_by_host_and_index() -> None:
    table = numbered(0, 64, gpus=16)
    bare = table.set_column(table.schema.get_field_index("uuid"), "uuid", pa.array([""] * 64))
    parcel = packer("json").pack([Piece(bare)], 12)
    assert {m.key for m in parcel.messages} == {f"h1/{n}".encode() for n in range(16)}
    assert len({m.partition for m in parcel.messages}) > 1


def test_round_robin_spreads_messages_not_gpus() -> None:
    parcel = packer(partitioner="round-robin", rows=10).pack([Piece(numbered(0, 40))], 4)
    assert [m.partition for m in parcel.messages] == [0, 1, 2, 3]
    assert decoded(parcel.messages).column("source_value").to_pylist() == list(range(40))


def test_a_rejected_row_becomes_a_dead_letter() -> None:
    row = Rejected("value is not a number", "a.csv:7", b'"x","y"')
    parcel = packer().pack([Piece(numbered(0, 0), None, [row])], 4)
    (message,) = parcel.messages
    assert message.dead
    assert message.value == b'"x","y"'
    headers = dict(message.headers)
    assert headers["kind"] == b"row"
    assert headers["reason"] == b"value is not a number"
    assert headers["where"] == b"a.csv:7"
    assert parcel.readings == 0


def test_a_parcel_knows_where_each_of_its_pieces_ends() -> None:
    ends = [Progress("a", {"o": 1}), Progress("b", {"o": 2}, 3)]
    parcel = packer().pack([Piece(numbered(0, 1), end) for end in ends], 4)
    assert parcel.progress == ends
    assert parcel.made_at == 5.0


def test_restamped_readings_are_shifted_and_the_latest_time_is_known() -> None:
    table = numbered(0, 10, at_us=NOW_US)
    parcel = packer().pack([Piece(table, shift_us=1_000_000)], 1)
    stamps = decoded(parcel.messages).column("timestamp").cast(pa.int64()).to_pylist()
    assert stamps == [NOW_US + 1_000_000 + n * 1000 for n in range(10)]
    assert parcel.last_stamp_us == max(stamps)


def test_a_reading_too_large_for_a_message_is_a_dead_letter_and_stops_nothing() -> None:
    table = numbered(0, 3)
    labels = pa.array(["", '{"x":"' + "y" * 700_000 + '"}', ""])
    table = table.set_column(table.schema.get_field_index("labels"), "labels", labels)
    parcel = packer().pack([Piece(table)], 1)
    good = [m for m in parcel.messages if not m.dead]
    assert decoded(good).column("source_value").to_pylist() == [0.0, 2.0]
    (dead,) = [m for m in parcel.messages if m.dead]
    assert dict(dead.headers)["reason"] == b"reading is too large"
    assert parcel.readings == 2
