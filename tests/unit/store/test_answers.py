"""Every answer is what a plain recomputation from all readings gives, however far behind the
derived tables are, and whatever came late."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nexus.store.port import (
    GPU_KEY,
    LATEST_KEY,
    READING_KEY,
    READING_ROWS,
    ROLLUP_KEY,
    ROLLUP_ROWS,
    GroupSteps,
    Page,
    Selection,
    Span,
    group_rows,
    summary_groups,
)
from nexus.store.questions import summary as summaries
from nexus.telemetry.catalogue import METRICS
from support.derived import HOUR, Row, expected_gpus, expected_latest, expected_rollup
from support.lakes import (
    Lake,
    any_lake,
    any_selection,
    between,
    fleet_readings,
    opened,
    selected,
    walked,
    without,
)

SEEDS = range(8)
STEPS = (1, 7, 10, 60, 90, 120, 300, 3600, 5400, 7200, 86_400)
ALL = Page(100_000)

Lakes = Callable[[int], Lake]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Lakes:
    """Makes a lake for each seed, once for all tests: they only ask."""
    return cache(lambda seed: any_lake(tmp_path_factory.mktemp("lake"), random.Random(seed)))


def any_span(lake: Lake, rng: random.Random) -> Span:
    ticks = lake.readings.column("timestamp").cast(pa.int64()).to_pylist()
    low, high = min(ticks), max(ticks)
    if rng.random() < 0.3:
        return Span(low, high)
    ends = sorted(rng.choice([rng.choice(ticks), rng.randrange(low, high + 1)]) for _ in range(2))
    return Span(ends[0], ends[1])


def in_order(rows: pa.Table, key: tuple[str, ...], *, descending: bool = False) -> pa.Table:
    way = "descending" if descending else "ascending"
    return rows.take(pc.sort_indices(rows, [(name, way) for name in key]))


def same(found: pa.Table, wanted: pa.Table) -> None:
    assert found.schema.equals(wanted.schema)
    assert found.to_pylist() == wanted.to_pylist()


def expected_steps(lake: Lake, which: Selection, span: Span, step_s: int) -> list[Row]:
    """Whole steps that the span touches, in order."""
    step = step_s * 1_000_000
    low, high = span.start_us // step * step, span.end_us // step * step + step - 1
    rows = expected_rollup(selected(between(lake.readings, low, high), which), step)
    made = [{**row, "unit": _unit(row["metric"])} for row in rows]
    return sorted(made, key=lambda row: tuple(row[name] for name in ROLLUP_KEY))


def same_steps(found: pa.Table, wanted: list[Row]) -> None:
    assert found.schema.equals(ROLLUP_ROWS)
    for row, other in zip(found.to_pylist(), wanted, strict=True):
        for name in ROLLUP_ROWS.names:
            assert row[name] == _close(name, other), (name, row, other)


def _unit(metric: str) -> str:
    return METRICS[metric].unit if metric in METRICS else ""


def _close(name: str, row: Row) -> Any:
    if name != "mean" or row["mean"] is None:
        return row[name]
    return pytest.approx(row["mean"], rel=1e-9, abs=1e-9 * max(abs(row["min"]), abs(row["max"])))


@pytest.mark.parametrize("seed", SEEDS)
def test_readings_are_those_of_the_span_in_order(lakes: Lakes, seed: int) -> None:
    rng = random.Random(seed)
    lake = lakes(seed)
    with opened(lake) as store:
        for _ in range(4):
            which, span = any_selection(rng), any_span(lake, rng)
            rows = selected(between(lake.readings, span.start_us, span.end_us), which)
            down = rng.random() < 0.5
            ask = store.snapshot().readings
            found = walked(
                lambda page: ask(which, span, page),  # noqa: B023
                READING_KEY,
                rng.choice([10, 50, 1000]),
                descending=down,
            )
            same(found, in_order(rows, READING_KEY, descending=down).cast(READING_ROWS))


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_are_right_up_to_the_newest_reading(lakes: Lakes, seed: int) -> None:
    rng = random.Random(seed)
    lake = lakes(seed)
    with opened(lake) as store:
        for step in rng.sample(STEPS, 5):
            which, span = any_selection(rng), any_span(lake, rng)
            found = store.snapshot().rollups(which, span, step, ALL)
            same_steps(found, expected_steps(lake, which, span, step))


@pytest.mark.parametrize("seed", range(4))
def test_pages_of_steps_hold_each_step_once(lakes: Lakes, seed: int) -> None:
    rng = random.Random(seed)
    lake = lakes(seed)
    with opened(lake) as store:
        for step in (10, 60, 300, 7200):
            span, down = any_span(lake, rng), rng.random() < 0.5
            ask = store.snapshot().rollups
            found = walked(
                lambda page: ask(Selection(), span, step, page),  # noqa: B023
                ROLLUP_KEY,
                rng.choice([30, 100]),
                descending=down,
            )
            wanted = expected_steps(lake, Selection(), span, step)
            same_steps(found, wanted[::-1] if down else wanted)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_reading_of_each_series_is_the_last_there_is(lakes: Lakes, seed: int) -> None:
    rng = random.Random(seed)
    lake = lakes(seed)
    with opened(lake) as store:
        which = any_selection(rng)
        rows = pa.Table.from_pylist(expected_latest(lake.readings), READING_ROWS)
        wanted = in_order(selected(rows, which), LATEST_KEY)
        ask = store.snapshot().latest
        same(walked(lambda page: ask(which, page), LATEST_KEY, 9), wanted)


@pytest.mark.parametrize("seed", SEEDS)
def test_gpus_are_who_their_newest_readings_say(lakes: Lakes, seed: int) -> None:
    rng = random.Random(seed)
    lake = lakes(seed)
    with opened(lake) as store:
        which = any_selection(rng)
        ask = store.snapshot().gpus
        found = walked(lambda page: ask(which, (), page), GPU_KEY, 2)
    known = pa.Table.from_pylist(expected_gpus(lake.readings))
    chosen = replace(which, metrics=(), instances=())
    wanted = in_order(selected(known, chosen), GPU_KEY) if known.num_rows else known
    assert found.drop_columns(["state", "busy"]).to_pylist() == [
        {name: row[name] for name in found.column_names if name not in ("state", "busy")}
        for row in wanted.to_pylist()
    ]


def expected_summary(rows: pa.Table, by: tuple[str, ...]) -> dict[tuple[str, ...], Row]:
    groups: dict[tuple[str, ...], list[float | None]] = {}
    for row in rows.to_pylist():
        groups.setdefault(tuple(row[name] for name in by), []).append(row["value"])
    return {key: _amounts(values) for key, values in groups.items()}


def _amounts(all_values: list[float | None]) -> Row:
    values = sorted(value for value in all_values if value is not None)
    count = len(values)
    ranks = {f"p{p}": values[(count * p + 99) // 100 - 1] if values else None for p in (50, 95, 99)}
    mean = sum(value / count for value in values) if values else None
    ends = {"min": values[0], "max": values[-1]} if values else {"min": None, "max": None}
    return {"count": count, "missing": len(all_values) - count, "mean": mean, **ends, **ranks}


def same_summary(found: pa.Table, wanted: dict[tuple[str, ...], Row], by: tuple[str, ...]) -> None:
    rows = found.to_pylist()
    assert [tuple(row[name] for name in by) for row in rows] == sorted(wanted)
    for row in rows:
        other = wanted[tuple(row[name] for name in by)]
        for name in ("count", "missing", "min", "max"):
            assert row[name] == other[name], (name, row, other)
        assert row["mean"] == _close("mean", other)
        for name in ("p50", "p95", "p99"):
            if other[name] is None:
                assert row[name] is None
                continue
            room = row[f"{name}_error"]
            assert room == 0 or not row["exact"]
            slack = 1e-12 * (abs(row[name]) + room)
            assert abs(row[name] - other[name]) <= room + slack, (name, row, other)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_summary_is_exact_but_for_percentiles_which_say_their_error(
    lakes: Lakes, seed: int, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    lake = lakes(seed)
    if not few:
        monkeypatch.setattr(summaries, "EXACT_ROWS", -1)
        monkeypatch.setattr(summaries, "WINDOWS_MAX", rng.choice([-1, 10**9]))
    with opened(lake) as store:
        for by in [(), ("uuid",), ("namespace", "metric"), ("cluster", "hostname", "gpu")]:
            which, span = any_selection(rng), any_span(lake, rng)
            groups = summary_groups(by)
            rows = selected(between(lake.readings, span.start_us, span.end_us), which)
            found = store.snapshot().summary(which, span, by)
            same_summary(found, expected_summary(rows, groups), groups)
            if few:
                assert pc.all(found.column("exact")).as_py() is not False


def expected_groups(
    lake: Lake, which: Selection, span: Span, step_s: int, by: tuple[str, ...]
) -> dict[tuple[Any, ...], Row]:
    """What the readings of each GPU amount to in a step, and those of a group."""
    step = step_s * 1_000_000
    low, high = span.start_us // step * step, span.end_us // step * step + step - 1
    members: dict[tuple[Any, ...], dict[tuple[str, ...], list[float]]] = {}
    for row in selected(between(lake.readings, low, high), which).to_pylist():
        if row["value"] is not None:
            at = round(row["timestamp"].timestamp() * 1e6) // step * step
            group = members.setdefault((at, *(row[name] for name in by)), {})
            who = tuple(row[name] for name in ("uuid", "mig", "instance"))
            group.setdefault(who, []).append(row["value"])
    return {key: _put_together(list(group.values())) for key, group in members.items()}


def _put_together(members: list[list[float]]) -> Row:
    means = [sum(value / len(values) for value in values) for values in members]
    all_values = [value for values in members for value in values]
    return {
        "members": len(means),
        "mean": sum(mean / len(means) for mean in means),
        "sum": sum(means),
        "min": min(all_values),
        "max": max(all_values),
    }


@pytest.mark.parametrize("seed", range(5))
def test_groups_by_steps_are_made_of_gpus_that_count_once(lakes: Lakes, seed: int) -> None:
    rng = random.Random(seed)
    lake = lakes(seed)
    with opened(lake) as store:
        for by in [("metric",), ("hostname",), ("namespace", "cluster")]:
            step, which, span = rng.choice(STEPS), any_selection(rng), any_span(lake, rng)
            down = rng.random() < 0.5
            asked = GroupSteps(step, by, 100_000, descending=down)
            found = store.snapshot().groups(which, span, asked)
            assert found.schema.equals(group_rows(by))
            names = summary_groups(by)
            wanted = expected_groups(lake, which, span, step, names)
            rows = {
                (row["start"].timestamp() * 1e6, *(row[n] for n in names)): row
                for row in found.to_pylist()
            }
            assert list(rows) == sorted(wanted, reverse=down)
            for key, row in rows.items():
                same_group(row, wanted[key])


def same_group(row: Row, wanted: Row) -> None:
    for name in ("members", "min", "max"):
        assert row[name] == wanted[name], (name, row, wanted)
    room = 1e-9 * max(abs(wanted["min"]), abs(wanted["max"])) * wanted["members"]
    for name in ("mean", "sum"):
        assert row[name] == pytest.approx(wanted[name], rel=1e-9, abs=room), (name, row, wanted)


def test_the_top_groups_are_those_with_the_greatest_sums(lakes: Lakes) -> None:
    lake = lakes(3)
    span = any_span(lake, random.Random(0))
    with opened(lake) as store:
        view = store.snapshot()
        every = view.groups(Selection(), span, GroupSteps(3600, ("uuid",), 100_000))
        top = view.groups(Selection(), span, GroupSteps(3600, ("uuid",), 100_000, top=2))
        few = view.groups(Selection(), span, GroupSteps(3600, ("uuid",), 3))
    size = every.group_by(["metric", "uuid"]).aggregate([("sum", "mean")]).to_pylist()
    for metric in set(every.column("metric").to_pylist()):
        ranked = sorted((-row["sum_mean"], row["uuid"]) for row in size if row["metric"] == metric)
        assert {row["uuid"] for row in top.to_pylist() if row["metric"] == metric} == {
            uuid for _, uuid in ranked[:2]
        }
    assert few.equals(every.slice(0, 3))


def test_rollups_are_used_where_they_can_be(tmp_path: Path) -> None:
    """Not by chance: a rollup that says something else is believed where it is not stale."""
    rng = random.Random(1)
    lake = Lake(tmp_path)
    start = 1_752_840_000_000_000 // HOUR * HOUR
    first = lake.add(fleet_readings(rng, 400, start, start + 3 * HOUR))
    real = lake.readings
    lake.readings = lake.readings.set_column(  # what the rollups will be made of
        lake.readings.schema.get_field_index("value"),
        lake.readings.schema.field("value"),
        pc.add(lake.readings.column("value"), 1.0),
    )
    lake.mark(first)
    for name in ("rollup_1m", "rollup_1h"):
        lake.derive(name, first, start + 3 * HOUR)
    late = without(fleet_readings(rng, 5, start, start + HOUR), real)
    lake.add(late)
    with opened(lake) as store:
        span = Span(start, start + 3 * HOUR - 1)
        found = store.snapshot().rollups(Selection(), span, 3600, ALL)
    hours = {row["start"]: row for row in found.to_pylist()}
    assert len(hours) == 3
    later = [row for row in expected_rollup(lake.readings, HOUR) if row["start"] != min(hours)]
    found_later = found.filter(pc.greater(found.column("start"), min(hours)))
    assert found_later.num_rows == len(later)
    assert _by(found_later.to_pylist(), "max") == _by(later, "max")


def _by(rows: list[Row], column: str) -> dict[tuple[Any, ...], Any]:
    return {tuple(row[name] for name in ROLLUP_KEY): row[column] for row in rows}
