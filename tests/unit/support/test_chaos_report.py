"""What is reported of faults is what happened: sums, percentiles, and silences."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.chaos_report import Totals, percentile
from support.chaos_run import Blow, silence

ONE = Totals(100, 110, 1, {"lost": 0, "duplicated": 2}, {"killed": [1.0, 3.0], "paused": [4.0]})
OTHER = Totals(50, 50, 0, {"lost": 1, "duplicated": 0}, {"killed": [2.0]})


def test_runs_add_up() -> None:
    both = Totals.sum([ONE, OTHER])
    assert (both.acknowledged, both.read, both.unknown, both.faults) == (150, 160, 1, 4)
    assert both.defects == {"lost": 1, "duplicated": 2}
    assert both.silences == {"killed": [1.0, 3.0, 2.0], "paused": [4.0]}


def test_a_saved_run_is_the_same_when_loaded(tmp_path: Path) -> None:
    ONE.save(tmp_path / "runs" / "one.json")
    assert Totals.load(tmp_path / "runs" / "one.json") == ONE


def test_the_table_names_every_kind_and_every_defect() -> None:
    text = str(ONE)
    assert "100 acknowledged" in text
    assert "3 faults: 0 lost, 2 duplicated" in text
    assert text.splitlines()[2].split() == ["killed", "2", "1.00", "3.00", "3.00"]


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([5.0], 95, 5.0),
        ([3.0, 1.0, 2.0], 50, 2.0),
        ([float(n) for n in range(1, 101)], 95, 95.0),
        ([float(n) for n in range(1, 21)], 95, 19.0),
        ([1.0, 2.0], 95, 2.0),
    ],
)
def test_a_percentile_is_one_of_the_values(
    values: list[float], percent: int, expected: float
) -> None:
    assert percentile(values, percent) == expected


def test_a_silence_begins_with_the_blow_or_within_it() -> None:
    acked = [9_000_000, 10_500_000, 14_000_000, 14_100_000, 30_000_000]
    assert silence(acked, Blow("cut", frozenset({0}), since=10.0, until=14.05)) == 3.5
    assert silence(acked, Blow("cut", frozenset({0}), since=11.0, until=14.05)) == 3.0
    # What begins after it was over is not its fault.
    assert silence(acked, Blow("cut", frozenset({0}), since=14.02, until=14.05)) == 0.08
