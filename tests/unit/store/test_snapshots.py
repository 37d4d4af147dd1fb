"""A snapshot stays as it was; a new one follows the tables, wherever they go."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from nexus.lake.compaction import compact
from nexus.lake.history import commit_name
from nexus.lake.plan import Merge
from nexus.lake.table import LakeTable
from nexus.store.delta import following, live, store
from nexus.store.delta.snapshot import DeltaSnapshot
from nexus.store.errors import StoreAway
from nexus.store.opening import open_store
from nexus.store.port import (
    ANY,
    LATEST_KEY,
    READING_KEY,
    ROLLUP_KEY,
    Page,
    Selection,
    Snapshot,
    Span,
)
from nexus.telemetry.tables import TABLES
from support.derived import HOUR, NOON, Row, canonical, expected_latest, expected_rollup
from support.lake import FENCE
from support.lakes import Lake, fleet_readings, opened, walked, without

ALL = Page(100_000)
SPAN = Span(NOON - 24 * HOUR, NOON + 24 * HOUR)


@pytest.fixture(autouse=True)
def every_look_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FRESH_S", 0.0)


def some(seed: int, count: int = 60, hours: int = 3) -> pa.Table:
    return fleet_readings(random.Random(seed), count, NOON, NOON + hours * HOUR)


def answers(view: Snapshot) -> list[object]:
    return [
        view.readings(ANY, SPAN, ALL).to_pylist(),
        view.rollups(ANY, SPAN, 60, ALL).to_pylist(),
        view.tables().to_pylist(),
    ]


def keys(rows: pa.Table, key: tuple[str, ...]) -> list[tuple[object, ...]]:
    return list(zip(*(rows.column(name).to_pylist() for name in key), strict=True))


def test_a_store_without_tables_is_an_empty_one(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "nothing")
    with opened(lake) as asked:
        view = asked.snapshot()
        assert view.versions == {}
        assert view.gpus(ANY, (), ALL).num_rows == 0
        assert view.gpu("GPU-1").num_rows == 0
        assert view.gpus_named("GPU") == []
        assert view.readings(ANY, SPAN, ALL).num_rows == 0
        assert view.rollups(ANY, SPAN, 60, ALL).num_rows == 0
        assert view.latest(ANY, ALL).num_rows == 0
        assert view.summary(ANY, SPAN, ("cluster",)).num_rows == 0
        assert view.fleet(ANY, ("cluster",)).num_rows == 0
        assert view.fleet(ANY, ()).column("gpus").to_pylist() == [0]
        assert view.metrics(ANY).num_rows == 0
        assert view.quarantine(SPAN, (), ALL).num_rows == 0
        assert view.tables().num_rows == 0
        lake.add(some(1))
        assert asked.snapshot().readings(ANY, SPAN, ALL).num_rows == 60


def test_a_pinned_snapshot_does_not_move(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    version = lake.add(some(1))
    for name in ("latest", "gpus"):
        lake.derive(name, version)
    with opened(lake) as asked:
        view = asked.snapshot()
        before = answers(view)
        lake.add(without(some(2, 200), lake.readings))
        later = asked.snapshot()
        assert later.readings(ANY, SPAN, ALL).num_rows == lake.readings.num_rows
        later.latest(ANY, ALL)  # what is kept in memory has gone on
        for name in ("latest", "rollup_1m"):
            lake.derive(name, version + 1, NOON + HOUR)
        assert answers(view) == before
        assert view.versions["readings"] == version
        first = set(keys(view.latest(ANY, ALL), LATEST_KEY))
        assert first == {tuple(r[n] for n in LATEST_KEY) for r in expected_latest(some(1))}
        assert later.versions["readings"] == version + 1


@pytest.mark.parametrize("descending", [False, True])
def test_pages_hold_each_row_once_while_readings_come(tmp_path: Path, descending: bool) -> None:
    lake = Lake(tmp_path)
    rng = random.Random(5)
    lake.add(some(1, 150))
    before = Counter(keys(lake.readings, READING_KEY))
    with opened(lake) as asked:

        def page_after_a_commit(page: Page) -> pa.Table:
            if rng.random() < 0.7:
                new = fleet_readings(rng, 20, NOON - HOUR, NOON + 5 * HOUR)
                lake.add(without(new, lake.readings))
            return asked.snapshot().readings(ANY, SPAN, page)

        found = walked(page_after_a_commit, READING_KEY, 23, descending=descending)
        seen = Counter(keys(found, READING_KEY))
        assert not before - seen
        assert max(seen.values()) == 1
        moments = found.column("timestamp").to_pylist()
        assert moments == sorted(moments, reverse=descending)


def test_pages_of_steps_and_series_hold_each_once_while_readings_come(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    rng = random.Random(6)
    version = lake.add(some(1, 150))
    lake.derive("rollup_1m", version, NOON + HOUR)
    with opened(lake) as asked:
        steps = Counter(keys(asked.snapshot().rollups(ANY, SPAN, 60, ALL), ROLLUP_KEY))
        series = Counter(keys(asked.snapshot().latest(ANY, ALL), LATEST_KEY))

        def commit() -> None:
            new = fleet_readings(rng, 20, NOON - HOUR, NOON + 5 * HOUR)
            lake.add(without(new, lake.readings))

        def page_of_steps(page: Page) -> pa.Table:
            commit()
            return asked.snapshot().rollups(ANY, SPAN, 60, page)

        def page_of_series(page: Page) -> pa.Table:
            commit()
            return asked.snapshot().latest(ANY, page)

        for ask, key, wanted in (
            (page_of_steps, ROLLUP_KEY, steps),
            (page_of_series, LATEST_KEY, series),
        ):
            seen = Counter(keys(walked(ask, key, 31), key))
            assert not wanted - seen
            assert max(seen.values()) == 1


def test_last_readings_follow_commit_by_commit(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    rng = random.Random(7)
    with opened(lake) as asked:
        for number in range(12):
            version = lake.add(without(some(number, 30), lake.readings))
            if number in (3, 8):
                lake.derive("latest", version)
            if number in (4, 9):
                lake.derive("gpus", version)
            if rng.random() < 0.8:
                found = asked.snapshot().latest(ANY, ALL)
                wanted = expected_latest(lake.readings)
                assert sorted(map(str, found.to_pylist())) == sorted(map(str, wanted))


def test_files_that_were_merged_before_they_were_looked_at_are_found(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    version = lake.add(some(1))
    for name in ("latest", "gpus"):
        lake.derive(name, version)
    lake.derive("rollup_1m", version, NOON + 2 * HOUR)
    lake.add(without(some(2), lake.readings))
    lake.add(without(some(3), lake.readings))
    table = LakeTable.open(lake.store, TABLES["readings"])
    assert compact(table, Merge(tuple(table.files())), FENCE) is not None
    with opened(lake) as asked:
        found = asked.snapshot().latest(ANY, ALL)
        assert sorted(map(str, found.to_pylist())) == sorted(
            map(str, expected_latest(lake.readings))
        )
        counts = asked.snapshot().rollups(ANY, SPAN, 60, ALL)
        assert sum(counts.column("count").to_pylist()) + sum(
            counts.column("missing").to_pylist()
        ) == (lake.readings.num_rows)


def test_files_that_are_gone_are_looked_for_once_in_newer_versions(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(some(1))
    lake.add(without(some(2), lake.readings))
    with opened(lake) as asked:
        view = asked.snapshot()
        table = LakeTable.open(lake.store, TABLES["readings"])
        old = table.files()
        assert compact(table, Merge(tuple(old)), FENCE) is not None
        table.files_of.remove([file.path for file in old])
        assert view.readings(ANY, SPAN, ALL).num_rows == lake.readings.num_rows
        assert view.versions["readings"] == table.version


def test_a_file_that_nobody_has_is_said_so(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(some(1))
    table = LakeTable.open(lake.store, TABLES["readings"])
    table.files_of.remove([file.path for file in table.files()])
    with opened(lake) as asked, pytest.raises(StoreAway, match="store delta:"):
        asked.snapshot().readings(ANY, SPAN, ALL)


def test_a_store_that_was_removed_and_made_again_is_found(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    for seed in range(3):
        lake.add(without(some(seed), lake.readings))
    with opened(lake) as asked:
        assert asked.snapshot().readings(ANY, SPAN, ALL).num_rows == lake.readings.num_rows
        shutil.rmtree(tmp_path / "lake")
        again = Lake(tmp_path / "lake")
        again.add(some(9, 25))
        assert asked.snapshot().readings(ANY, SPAN, ALL).num_rows == 25


def test_many_threads_get_the_same_answers(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    version = lake.add(some(1, 300))
    lake.derive("rollup_1m", version, NOON + HOUR)
    wrong: list[object] = []
    with opened(lake) as asked:
        wanted = [
            asked.snapshot().rollups(ANY, SPAN, 60, ALL).to_pylist(),
            asked.snapshot().latest(ANY, ALL).to_pylist(),
            asked.snapshot().fleet(ANY, ("cluster",)).to_pylist(),
        ]

        def ask_all() -> None:
            for _ in range(5):
                view = asked.snapshot()
                found = [
                    view.rollups(ANY, SPAN, 60, ALL).to_pylist(),
                    view.latest(ANY, ALL).to_pylist(),
                    view.fleet(ANY, ("cluster",)).to_pylist(),
                ]
                if found != wanted:
                    wrong.append(found)

        threads = [threading.Thread(target=ask_all) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_closed_store_says_so_and_can_be_closed_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(some(1))
    asked = open_store(lake.url)
    view = asked.snapshot()
    asked.close()
    asked.close()
    with pytest.raises(StoreAway):
        asked.snapshot()
    with pytest.raises(StoreAway):
        view.readings(ANY, SPAN, ALL)


def test_few_readings_over_a_long_time_make_only_their_own_minutes_stale(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    version = lake.add(some(1, 200))
    lake.derive("rollup_1m", version, NOON + 3 * HOUR)
    ends: list[Row] = [
        {"timestamp": NOON + 1, "uuid": "GPU-7"},
        {"timestamp": NOON + 2 * HOUR + 1},
    ]
    lake.add(canonical(ends))
    with opened(lake) as asked:
        view = asked.snapshot()
        assert isinstance(view, DeltaSnapshot)
        pins = view.pins
        (late,) = pins.arrivals.after(version) or []
        assert late.high - late.low >= 2 * HOUR
        found = live.Live(asked._database).minutes(late)  # type: ignore[attr-defined]
        assert sum(s.high - s.low for s in found) == 2 * 60_000_000
        steps = view.rollups(Selection(uuids=("GPU-7",)), SPAN, 60, ALL)
        assert steps.column("count").to_pylist() == [1]


def test_without_the_log_every_window_is_made_of_readings(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    version = lake.add(some(1, 200))
    for name in ("rollup_1m", "rollup_1h", "latest", "gpus"):
        lake.derive(name, version, NOON + 3 * HOUR)
    for seed in (2, 3, 4):
        lake.add(without(some(seed), lake.readings))
    table = LakeTable.open(lake.store, TABLES["readings"])
    table.delta.create_checkpoint()
    for old in range(table.version - 1):
        (tmp_path / "readings" / commit_name(old)).unlink()
    with opened(lake) as asked:
        for _ in range(2):
            steps = asked.snapshot().rollups(ANY, SPAN, 3600, ALL)
            found = sum(steps.column("count").to_pylist()) + sum(steps["missing"].to_pylist())
            assert found == lake.readings.num_rows
            last = asked.snapshot().latest(ANY, ALL)
            assert last.num_rows == len(expected_latest(lake.readings))
            lake.add(without(some(9), lake.readings))


def test_a_look_that_was_cut_short_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    version = lake.add(some(1))
    for name in ("latest", "gpus"):
        lake.derive(name, version)
    with opened(lake) as asked:
        asked.snapshot().latest(ANY, ALL)
        lake.add(without(some(2), lake.readings))

        def fails(*_: object) -> None:
            raise OSError("the disk is away")

        with monkeypatch.context() as patched:
            patched.setattr(following.Following, "_arrived", fails)
            with pytest.raises(StoreAway, match="disk is away"):
                asked.snapshot()
        found = asked.snapshot().latest(ANY, ALL)
        assert found.num_rows == len(expected_latest(lake.readings))


def test_rollups_of_days_whose_readings_were_removed_are_kept(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    version = lake.add(some(1, 100))
    lake.derive("rollup_1h", version, NOON + 3 * HOUR)
    table = LakeTable.open(lake.store, TABLES["readings"])
    day = "2025-07-18"
    table.commit((), table.files(), {f"removed:{day}": 1}, FENCE, once=False)
    late = canonical([{"timestamp": NOON + HOUR + 5, "uuid": "GPU-9"}])
    lake.add(late)
    with opened(lake) as asked:
        steps = asked.snapshot().rollups(ANY, SPAN, 3600, ALL)
        assert steps.num_rows == len(expected_rollup(some(1, 100), HOUR))
        amounts = asked.snapshot().summary(ANY, SPAN, ())
        assert sum(amounts["count"].to_pylist()) + sum(amounts["missing"].to_pylist()) == 100
