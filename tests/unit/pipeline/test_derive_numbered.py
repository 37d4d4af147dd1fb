"""Rows cross Spark as numbers and come out as the rows they were."""

import random

import pyarrow as pa
import pytest

from nexus.pipeline.derive.numbered import Numberer, Told, first_of_each, numbered_schema
from nexus.pipeline.errors import PipelineError
from nexus.pipeline.narrow import NUMBER_COLUMNS, TEXT_COLUMNS, series_numbers
from nexus.telemetry.reading import READING_SCHEMA
from support.derived import MINUTE, NOON, any_readings, canonical

SCHEMA = numbered_schema([READING_SCHEMA.field(name) for name in NUMBER_COLUMNS])


def numbered(*tables: pa.Table) -> pa.Table:
    numberer = Numberer(TEXT_COLUMNS, SCHEMA, None)
    batches = [batch for table in tables for batch in numberer.batches(table)]
    return pa.Table.from_batches(batches, SCHEMA)


def test_rows_come_out_as_they_went_in() -> None:
    readings = any_readings(random.Random(1), 200, MINUTE)
    told = Told(numbered(readings.slice(0, 120), readings.slice(120)))
    columns = {name: told.rows.column(name) for name in NUMBER_COLUMNS}
    made = pa.table({**columns, **told.texts(told.rows, TEXT_COLUMNS)})
    assert made.select(READING_SCHEMA.names).to_pylist() == readings.to_pylist()


def test_a_context_is_told_once_a_task() -> None:
    row = {"hostname": "h1"}
    rows = numbered(canonical([row]), canonical([row, {"hostname": "h2"}]), canonical([row]))
    assert rows.column("told").null_count == 4
    assert rows.num_rows == 4 + 2


def test_a_series_has_the_number_that_it_has_everywhere() -> None:
    readings = canonical([{"uuid": "GPU-7", "pod": "a", "hostname": host} for host in "xy"])
    rows = Told(numbered(readings)).rows
    halves = [rows.column(name).to_pylist() for name in ("series_a", "series_b")]
    assert halves == [half.tolist() for half in series_numbers(readings)]
    assert halves[0][0] == halves[0][1], "another host is another context, not another series"
    assert len(set(rows.column("context").to_pylist())) == 2


def test_a_row_whose_context_never_came_is_an_error() -> None:
    rows = numbered(canonical([{}]))
    without = Told(rows.filter(pa.array([False, True])))
    with pytest.raises(PipelineError, match="ever told"):
        without.texts(without.rows, ("uuid",))


def test_the_first_of_each_key_is_kept_by_the_order_given() -> None:
    rows = pa.table({"a": [2, 1, 2, 1], "b": [1, 5, 3, 4], "c": ["x", "y", "z", "w"]})
    kept = first_of_each(rows, ("a",), {"b": "descending"})
    assert kept.to_pylist() == [{"a": 1, "b": 5, "c": "y"}, {"a": 2, "b": 3, "c": "z"}]
    assert first_of_each(rows.slice(0, 0), ("a",), {}).num_rows == 0


def test_what_is_nothing_has_no_rows() -> None:
    assert numbered(canonical([{"timestamp": NOON}]).slice(0, 0)).num_rows == 0
