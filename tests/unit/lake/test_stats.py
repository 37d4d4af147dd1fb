"""Statistics of files: they hold every value, so that pruning never loses a row."""

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.lake.stats import delta_stats, parse_moment, pruned_columns
from support.lake import NOON, READINGS
from support.readings import examples

MOMENT = pa.timestamp("us", tz="UTC")


def stats_of(table: pa.Table, group_rows: int = 2) -> dict[str, Any]:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group_rows)
    stats: dict[str, Any] = json.loads(delta_stats(pq.read_metadata(sink), table.column_names))
    return stats


@examples(60)
@given(
    st.lists(
        st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
        min_size=1,
        max_size=5,
    )
)
def test_bounds_of_moments_hold_every_moment_and_are_within_a_millisecond(
    moments: list[datetime | None],
) -> None:
    stats = stats_of(pa.table({"timestamp": pa.array(moments, MOMENT)}))
    there = [moment for moment in moments if moment is not None]
    assert stats["nullCount"] == {"timestamp": len(moments) - len(there)}
    if not there:
        assert stats["minValues"] == stats["maxValues"] == {}
        return
    low, high = (parse_moment(stats[end]["timestamp"]) for end in ("minValues", "maxValues"))
    assert low <= min(there) < low + timedelta(milliseconds=1)
    assert high - timedelta(milliseconds=1) < max(there) <= high


def test_the_greatest_moment_is_rounded_up_and_the_least_down() -> None:
    moments = [NOON + timedelta(microseconds=1), NOON + timedelta(microseconds=2001)]
    stats = stats_of(pa.table({"timestamp": pa.array(moments, MOMENT)}))
    assert stats["minValues"] == {"timestamp": "2025-07-18T12:00:00.000Z"}
    assert stats["maxValues"] == {"timestamp": "2025-07-18T12:00:00.003Z"}
    assert stats["numRecords"] == 2


def test_a_whole_millisecond_stays_as_it_is() -> None:
    stats = stats_of(pa.table({"timestamp": pa.array([NOON], MOMENT)}))
    assert stats["minValues"] == stats["maxValues"] == {"timestamp": "2025-07-18T12:00:00.000Z"}


@examples(30)
@given(st.lists(st.text(max_size=4), min_size=1, max_size=5))
def test_bounds_of_text_hold_every_text(texts: list[str]) -> None:
    stats = stats_of(pa.table({"uuid": texts}))
    ordered = sorted(text.encode() for text in texts)
    assert stats["minValues"]["uuid"].encode() == ordered[0]
    assert stats["maxValues"]["uuid"].encode() == ordered[-1]


def test_long_text_has_no_bounds() -> None:
    stats = stats_of(pa.table({"uuid": ["a", "b" * 5000], "metric": ["a", "b" * 200]}))
    assert stats["minValues"] == stats["maxValues"] == {}


def test_a_file_without_rows_has_no_bounds() -> None:
    stats = stats_of(pa.table({"timestamp": pa.array([], MOMENT)}))
    assert (stats["numRecords"], stats["minValues"]) == (0, {})


@pytest.mark.parametrize("name", ["timestamp", "ingested", "uuid", "metric"])
def test_readings_are_pruned_by(name: str) -> None:
    assert name in pruned_columns(READINGS.schema)
