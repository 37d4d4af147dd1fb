"""What is made of readings where they are read is what a plain loop over them would make."""

import random
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from nexus.pipeline.derive.parts import WINDOW_PART, by_window, last_of_each
from nexus.telemetry.identity import SERIES_COLUMNS
from support.derived import MINUTE, NOON, Row, any_readings, canonical, shuffled


def series_of(rows: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in SERIES_COLUMNS) for row in rows]


def numbers(table: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    seen: dict[tuple[object, ...], int] = {}
    return np.array([seen.setdefault(one, len(seen)) for one in series_of(table.to_pylist())])


@pytest.mark.parametrize("seed", range(5))
def test_a_part_says_what_its_readings_say(seed: int) -> None:
    rng = random.Random(seed)
    readings = shuffled(any_readings(rng, 300, 3 * MINUTE), rng)
    reduced = by_window(MINUTE)(readings, numbers(readings))
    parts = pa.table(dict(reduced.columns)).cast(WINDOW_PART).to_pylist()
    told = readings.take(reduced.rows).to_pylist()
    groups: defaultdict[object, list[Row]] = defaultdict(list)
    rows = readings.to_pylist()
    for one, row in zip(series_of(rows), rows, strict=True):
        groups[one, row["timestamp"].replace(second=0, microsecond=0)].append(row)
    found = {
        (one, part["start"]): (part, last)
        for one, part, last in zip(series_of(told), parts, told, strict=True)
    }
    assert len(found) == len(parts)
    assert found.keys() == groups.keys()
    for key, (part, last) in found.items():
        group = sorted(groups[key], key=lambda row: row["timestamp"])
        valued = [row for row in group if row["value"] is not None]
        assert last == group[-1]
        assert part["newest"] == group[-1]["timestamp"]
        assert part["missing"] == len(group) - len(valued)
        assert sorted(part["values"]) == sorted(row["value"] for row in valued)
        assert part["last"] == (valued[-1]["value"] if valued else None)
        assert part["last_timestamp"] == (valued[-1]["timestamp"] if valued else None)


def test_totals_are_sums_and_may_be_more_than_a_number_can_be() -> None:
    values = [1.5, 2.5, None, 4.0]
    rows: list[Row] = [{"timestamp": NOON + n, "value": v} for n, v in enumerate(values)]
    rows += [{"uuid": "GPU-2", "timestamp": NOON + n, "value": 1.7e308} for n in range(2)]
    readings = canonical(rows)
    reduced = by_window(MINUTE)(readings, numbers(readings))
    assert reduced.columns["total"].to_pylist() == [8.0, float("inf")]


@pytest.mark.parametrize("seed", range(3))
def test_of_each_series_the_last_reading_is_kept_whole(seed: int) -> None:
    rng = random.Random(seed)
    readings = shuffled(any_readings(rng, 200, 3 * MINUTE), rng)
    reduced = last_of_each("first")(readings, numbers(readings))
    rows = readings.to_pylist()
    groups: defaultdict[object, list[Row]] = defaultdict(list)
    for one, row in zip(series_of(rows), rows, strict=True):
        groups[one].append(row)
    wanted = {one: max(g, key=lambda row: row["timestamp"]) for one, g in groups.items()}
    told = readings.take(reduced.rows).to_pylist()
    assert dict(zip(series_of(told), told, strict=True)) == wanted
    firsts = reduced.columns["first"].to_pylist()
    for one, first in zip(series_of(told), firsts, strict=True):
        assert first == min(row["timestamp"] for row in groups[one])
    assert reduced.columns["value"].to_pylist() == [row["value"] for row in told]
