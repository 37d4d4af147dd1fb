"""The narrow form loses nothing, and tells each context once."""

from itertools import combinations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.pipeline.errors import PipelineError
from nexus.pipeline.narrow import (
    CONTEXT,
    NARROW_SCHEMA,
    READING,
    UNREADABLE,
    Narrower,
    Widener,
    series_numbers,
    unreadable,
)
from nexus.telemetry.checks import NO_IDENTITY, NO_METRIC
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import plain
from support.readings import any_reading, examples, readings


def narrowed(narrower: Narrower, table: pa.Table) -> list[pa.RecordBatch]:
    rows = pa.arange(0, table.num_rows)
    partition = pa.repeat(pa.scalar(3, pa.int32()), table.num_rows)
    return list(narrower.batches(table, partition, rows, rows.cast(pa.int32())))


def of_kind(batches: list[pa.RecordBatch], kind: int) -> pa.Table:
    table = pa.Table.from_batches(batches, NARROW_SCHEMA)
    return table.filter(pc.equal(table.column("kind"), pa.scalar(kind, pa.int8())))


@examples(60)
@given(st.lists(any_reading(), min_size=1, max_size=8))
def test_what_is_narrowed_and_widened_is_what_it_was(rows: list[dict[str, object]]) -> None:
    canonical = normalise(readings(*rows))
    batches = narrowed(Narrower(), canonical)
    widener = Widener()
    widener.learn(of_kind(batches, CONTEXT))
    assert plain(widener.readings(of_kind(batches, READING))).equals(plain(canonical))


@examples(60)
@given(st.lists(any_reading(), min_size=2, max_size=8))
def test_series_have_one_number_exactly_if_they_are_one(rows: list[dict[str, object]]) -> None:
    canonical = normalise(readings(*rows, *rows))
    found = of_kind(narrowed(Narrower(), canonical), READING)
    numbers = list(zip(found["series_a"].to_pylist(), found["series_b"].to_pylist(), strict=True))
    series = list(zip(*(canonical[name].to_pylist() for name in SERIES_COLUMNS), strict=True))
    for one, other in combinations(range(len(series)), 2):
        assert (numbers[one] == numbers[other]) == (series[one] == series[other])


def test_the_numbers_of_series_do_not_change_between_versions() -> None:
    row = {"uuid": "GPU-1", "namespace": "team", "pod": "p-0", "container": "c"}
    a, b = series_numbers(normalise(readings(row)))
    assert (a.tolist(), b.tolist()) == ([1_923_099_459_898_550_560], [-7_718_553_693_603_405_100])


def test_a_context_is_told_once_and_before_its_readings() -> None:
    narrower = Narrower()
    table = normalise(readings({"uuid": "GPU-1"}, {"uuid": "GPU-2"}, {"uuid": "GPU-1"}))
    first, second = narrowed(narrower, table), narrowed(narrower, table)
    assert [batch.column("kind")[0].as_py() for batch in first] == [CONTEXT, READING]
    told = of_kind(first, CONTEXT)["text"].to_pylist()
    assert sum(pa.ipc.open_stream(blob).read_all().num_rows for blob in told) == 2
    assert of_kind(second, CONTEXT).num_rows == 0


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"uuid": "GPU-1"}, None),
        ({"hostname": "h", "gpu": "0"}, None),
        ({"hostname": "h"}, NO_IDENTITY),
        ({"gpu": "0"}, NO_IDENTITY),
        ({"uuid": "GPU-1", "source_metric": ""}, NO_METRIC),
        ({"uuid": "GPU-1", "unit": "bananas"}, "unit"),
    ],
)
def test_a_context_that_cannot_be_is_said_to_be_at_fault(
    row: dict[str, object], fault: str | None
) -> None:
    rows = of_kind(narrowed(Narrower(), normalise(readings(row))), READING)
    found = rows["fault"][0].as_py()
    assert found is None if fault is None else fault in found


def test_keys_sort_as_uuids_do() -> None:
    uuids = ["GPU-0a", "GPU-0b000000-1", "GPU-b", "GPU-f0", "host-1/0", "host-2/0"]
    table = normalise(readings(*({"uuid": uuid} for uuid in uuids)))
    keys = of_kind(narrowed(Narrower(), table), READING)["gpu_key"].to_pylist()
    assert keys == sorted(keys)
    assert all(key >= 0 for key in keys)


def test_a_message_that_gave_nothing_is_kept_as_it_came() -> None:
    batch = unreadable([1, 2], [10, 20], ["torn", "odd"], [b"\xff", b""])
    assert batch.schema.equals(NARROW_SCHEMA)
    assert batch.column("kind").to_pylist() == [UNREADABLE, UNREADABLE]
    assert batch.column("text").to_pylist() == [b"\xff", b""]
    assert batch.column("offset").to_pylist() == [10, 20]


def test_a_reading_without_its_context_is_an_error_not_a_guess() -> None:
    rows = of_kind(narrowed(Narrower(), normalise(readings({"uuid": "GPU-1"}))), READING)
    with pytest.raises(PipelineError, match="ever told"):
        Widener().readings(rows)
    other = of_kind(narrowed(Narrower(), normalise(readings({"uuid": "GPU-2"}))), CONTEXT)
    widener = Widener()
    widener.learn(other)
    with pytest.raises(PipelineError, match="never told"):
        widener.readings(rows)


def test_two_contexts_with_one_number_are_an_error_not_a_mixture() -> None:
    contexts = of_kind(narrowed(Narrower(), normalise(readings({"uuid": "GPU-1"}))), CONTEXT)
    told = pa.ipc.open_stream(contexts["text"][0].as_py()).read_all()
    forged = told.set_column(1, "check", pa.array([7], pa.int64()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, forged.schema) as writer:
        writer.write_table(forged)
    blob = pa.array([bytes(sink.getvalue())], pa.binary())
    widener = Widener()
    widener.learn(contexts)
    with pytest.raises(PipelineError, match="told apart"):
        widener.learn(pa.table({"text": blob}))
