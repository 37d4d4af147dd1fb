"""Rows as numbers: the same in any order and form, and another for every change."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.pipeline.moving.checksum import Digest, Numbers, digest_of, numbers_of
from nexus.pipeline.moving.known import Known, rounds
from nexus.pipeline.moving.port import slices, start_of
from nexus.pipeline.moving.windows import Minutes
from nexus.store.port import RAW_MAX
from nexus.store.questions.spans import DAY, HOUR, MINUTE, Stretch
from nexus.telemetry.reading import READING_SCHEMA
from nexus.telemetry.tables import TABLES
from support.derived import NOON, canonical, expected_rollup
from support.lakes import fleet_readings
from support.moving import refused_rows

PINNED_READING, PINNED_REFUSED = "828a4b0ec47d2dbc", "0b0560d20a04d619"
ONE: dict[str, Any] = {"uuid": "GPU-1", "metric": "power", "pod": "a", "value": 1.0}


def test_a_checksum_is_the_same_in_any_order_in_any_portions_and_encoded_or_not() -> None:
    rows = fleet_readings(random.Random(1), 200, NOON, NOON + HOUR)
    order = list(range(200))
    random.Random(2).shuffle(order)
    shuffled = rows.take(pa.array(order))
    encoded = pa.table(
        {
            name: column.dictionary_encode() if pa.types.is_string(column.type) else column
            for name, column in zip(rows.column_names, rows.columns, strict=True)
        }
    )
    wanted = digest_of("readings", [rows])
    assert wanted.rows == 200
    assert digest_of("readings", [shuffled.slice(0, 77), shuffled.slice(77)]) == wanted
    assert digest_of("readings", [encoded]) == wanted


def test_a_checksum_is_what_it_was_in_earlier_versions() -> None:
    # Stores may be compared by programs of different versions.
    assert str(digest_of("readings", [canonical([ONE])])) == PINNED_READING
    rows = refused_rows(3).drop_columns(["day"])
    assert str(digest_of("quarantine", [rows])) == PINNED_REFUSED


@pytest.mark.parametrize("name", READING_SCHEMA.names)
def test_every_column_of_a_reading_counts(name: str) -> None:
    field = READING_SCHEMA.field(name)
    other: Any = "x" if pa.types.is_string(field.type) else 7
    one, changed = canonical([ONE]), canonical([{**ONE, "ingested": NOON, name: other}])
    assert digest_of("readings", [one]) != digest_of("readings", [changed])
    is_identity = name in TABLES["readings"].key
    which = [numbers_of("readings", rows).which[0] for rows in (one, changed)]
    assert (which[0] != which[1]) == is_identity


def test_what_stores_keep_in_different_ways_counts_as_one() -> None:
    def said(value: float | None) -> Digest:
        return digest_of("readings", [canonical([{**ONE, "value": value, "source_value": 0.0}])])

    assert said(-0.0) == said(0.0)
    assert said(float("nan")) == said(None) != said(0.0)
    long = refused_rows(1).drop_columns(["day"])
    raw = [pa.array([b"x" * size], pa.binary()) for size in (RAW_MAX, RAW_MAX + 1, 5)]
    at = long.schema.get_field_index("raw")
    whole, cut, short = (digest_of("quarantine", [long.set_column(at, "raw", r)]) for r in raw)
    assert whole == cut != short


numbers = st.lists(st.integers(0, 8), max_size=30)


@given(numbers, numbers, st.integers(1, 7))
def test_rows_are_new_as_often_as_they_are_more_than_known(
    known: list[int], given_: list[int], portion: int
) -> None:
    held = Known([_numbers(known)])
    new = []
    for start in range(0, len(given_), portion):
        some = given_[start : start + portion]
        mask = held.are_new(_numbers(some))
        new += [number for number, is_new in zip(some, mask, strict=True) if is_new]
    wanted = [n for n in range(9) for _ in range(max(0, given_.count(n) - known.count(n)))]
    assert sorted(new) == wanted
    assert held.matched == len(given_) - len(new)
    assert held.unmatched == len(known) - held.matched


def test_a_known_row_that_says_something_else_is_counted() -> None:
    held = Known([Numbers(np.array([1, 2, 3], np.uint64), np.array([7, 7, 7], np.uint64))])
    which, said = np.array([3, 2, 9], np.uint64), np.array([7, 8, 9], np.uint64)
    assert held.are_new(Numbers(which, said)).tolist() == [False, False, True]
    assert held.differing == 1


def test_rounds_share_rows_between_them() -> None:
    rows = fleet_readings(random.Random(3), 100, NOON, NOON + HOUR)
    parts = [
        sum(numbers.which.size for _, numbers in each.rows("readings", [rows]))
        for each in rounds(100, at_once=30)
    ]
    assert len(parts) == 4
    assert sum(parts) == 100
    assert all(parts)
    assert len(rounds(0)) == 1


def test_days_are_cut_where_the_times_say() -> None:
    noon = start_of("2025-07-18") + 12 * HOUR
    found = slices(["2025-07-19", "2025-07-18", "2025-07-17"], "readings", noon, noon + DAY)
    assert [(part.day, part.high - part.low) for part in found] == [
        ("2025-07-18", 12 * HOUR),
        ("2025-07-19", 12 * HOUR),
    ]
    assert slices({"2025-07-18": 1}, "quarantine", None, None)[0].is_whole


@pytest.mark.parametrize(("name", "width"), [("rollup_1m", MINUTE), ("rollup_1h", HOUR)])
def test_windows_say_what_their_readings_say(name: str, width: int) -> None:
    rows = fleet_readings(random.Random(4), 300, NOON, NOON + 3 * HOUR)
    windows = pa.Table.from_pylist(expected_rollup(rows, width), TABLES[name].schema)
    whole = [Stretch(NOON - 12 * HOUR, NOON + 12 * HOUR)]

    def differing(readings: pa.Table, rolled: pa.Table) -> list[int]:
        said, found = Minutes("2025-07-18"), Minutes("2025-07-18")
        said.add_readings(readings.slice(0, 100))
        said.add_readings(readings.slice(100))
        found.add_windows(rolled)
        if width == HOUR:
            said, found = said.hours(), found.hours()
        return found.differing(said, whole, width)

    assert differing(rows, windows) == []
    lost = rows.column("timestamp").cast(pa.int64())[7].as_py()
    fewer = pa.concat_tables([rows.slice(0, 7), rows.slice(8)])
    assert differing(fewer, windows) == [lost - lost % width]
    gone = windows.column("start").cast(pa.int64())[0].as_py()
    assert differing(rows, windows.slice(1)) == [gone]


def _numbers(values: list[int]) -> Numbers:
    bits = np.array(values, np.uint64)
    return Numbers(bits, bits)
