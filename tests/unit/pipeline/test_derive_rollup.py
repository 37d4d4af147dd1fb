"""Parts of windows put together in Spark are what DuckDB makes of all readings at once."""

import random

import pyarrow as pa

from nexus.pipeline.derive import latest
from nexus.pipeline.derive.numbered import Numberer, Told, numbered_schema
from nexus.pipeline.derive.parts import WINDOW_PART, Reduce, by_window, last_of_each
from nexus.pipeline.derive.rollup import rollup
from nexus.pipeline.derive.rollup_table import TEXT
from support.derived import (
    HOUR,
    NOON,
    any_readings,
    expected_latest,
    expected_rollup,
    same_rows,
    shuffled,
)
from support.spark import spark_session


def parts(
    readings: pa.Table, text: tuple[str, ...], columns: pa.Schema, reduce: Reduce
) -> pa.Table:
    """As several tasks would give them."""
    schema = numbered_schema(columns)
    shares = [readings.slice(start, 150) for start in range(0, readings.num_rows, 150)]
    batches = [b for share in shares for b in Numberer(text, schema, reduce).batches(share)]
    return pa.Table.from_batches(batches, schema)


def test_windows_are_exact_wherever_their_readings_were() -> None:
    rng = random.Random(7)
    readings = shuffled(any_readings(rng, 900, 3 * HOUR, NOON), rng)
    frame = spark_session().createDataFrame(parts(readings, TEXT, WINDOW_PART, by_window(HOUR)))
    told = Told(rollup(frame).toArrow())
    texts = told.texts(told.rows, TEXT)
    rows = pa.table({**texts, **dict(zip(told.rows.column_names, told.rows.columns, strict=True))})
    day = rows.column("start").cast(pa.date32())
    same_rows(rows.append_column("day", day), expected_rollup(readings, HOUR), "rollup_1h")


def test_the_last_of_each_series_is_the_last_of_all_its_parts() -> None:
    rng = random.Random(8)
    readings = shuffled(any_readings(rng, 600, HOUR), rng)
    made = parts(readings, latest.TEXT, latest.PART, last_of_each(latest.FIRST))
    told = Told(latest.last_of_series(spark_session().createDataFrame(made)).toArrow())
    texts = told.texts(told.rows, latest.TEXT)
    rows = pa.table({**texts, **dict(zip(told.rows.column_names, told.rows.columns, strict=True))})
    same_rows(rows, expected_latest(readings), "latest")
