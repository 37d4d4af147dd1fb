"""Derived tables equal a plain recomputation, wherever steps, crashes and the upkeep fall."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from nexus.lake.compaction import compact
from nexus.lake.datafile import DataFile
from nexus.lake.errors import Fenced, HistoryGone
from nexus.lake.fence import REMOVED_APP, Fence
from nexus.lake.files import NewFile
from nexus.lake.plan import Merge
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.pipeline.derive.engine import Engine
from nexus.pipeline.derive.follower import Follower
from nexus.pipeline.derive.options import DeriveOptions
from nexus.pipeline.derive.progress import Progress
from nexus.pipeline.derive.rebuild import rebuild
from nexus.pipeline.derive.rollup_table import RollupTable, Task
from nexus.pipeline.derive.windows import SECOND, micros, moment_of
from nexus.pipeline.errors import PipelineError
from nexus.telemetry.tables import TABLES
from support.derived import (
    HOUR,
    MINUTE,
    NOON,
    any_readings,
    canonical,
    expected_gpus,
    expected_latest,
    expected_rollup,
    put,
    same_rows,
    shuffled,
    stored,
)
from support.lake import FENCE, store_in
from support.spark import spark_session

SMALL = DeriveOptions(piece_rows=250, partition_rows=80, dense_rows=3, uuids_max=2)


@pytest.fixture
def store(tmp_path: Path) -> StoreUrl:
    return store_in(tmp_path / "lake")


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self, at_us: int) -> None:
        self.us = at_us

    def __call__(self) -> float:
        return self.us / SECOND


def follower(store: StoreUrl, clock: Clock, options: DeriveOptions = SMALL) -> Follower:
    return Follower(spark_session(), store, FENCE, clock, options)


def minutes(store: StoreUrl, options: DeriveOptions = SMALL) -> RollupTable:
    """The rollup by minute alone."""
    engine = Engine.beside(spark_session(), store, FENCE, options)
    return RollupTable(engine, engine.table("readings"), "rollup_1m", MINUTE)


def step(rollup: RollupTable, now_us: int) -> None:
    rollup._readings.refresh()
    rollup.step(now_us / SECOND, drain=True)


def check_minutes(store: StoreUrl, readings: pa.Table) -> None:
    closed = LakeTable.open(store, TABLES["rollup_1m"]).transaction_version("closed")
    assert closed is not None
    same_rows(
        stored(store, "rollup_1m"), expected_rollup(readings, MINUTE, closed * SECOND), "rollup_1m"
    )


def check_all(store: StoreUrl, readings: pa.Table) -> None:
    check_minutes(store, readings)
    closed = LakeTable.open(store, TABLES["rollup_1h"]).transaction_version("closed") or 0
    same_rows(
        stored(store, "rollup_1h"), expected_rollup(readings, HOUR, closed * SECOND), "rollup_1h"
    )
    same_rows(stored(store, "latest"), expected_latest(readings), "latest")
    same_rows(stored(store, "gpus"), expected_gpus(readings), "gpus")


@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_and_any_steps_give_the_same_tables(store: StoreUrl, seed: int) -> None:
    rng = random.Random(seed)
    readings = shuffled(any_readings(rng, 300, 3 * HOUR), rng)  # some are in the future at first
    clock = Clock(NOON + 2 * HOUR + rng.randrange(HOUR))
    following = follower(store, clock)
    done = 0
    while done < readings.num_rows:
        count = rng.randint(60, 160)
        put(store, readings.slice(done, count))
        done += count
        clock.us += rng.choice([0, 20 * MINUTE])
        if rng.random() < 0.3:
            following = follower(store, clock)  # as after a restart
        following.step(drain=rng.random() < 0.5)
    clock.us = NOON + 4 * HOUR
    said = following.step(drain=True)
    assert said.lag == 0
    assert said.tables["rollup_1m"].closed == said.tables["rollup_1h"].closed
    check_all(store, readings)


def test_an_empty_table_derives_nothing_and_commits_nothing(store: StoreUrl) -> None:
    said = follower(store, Clock(NOON)).step(drain=True)
    assert {name: table.version for name, table in said.tables.items()} == dict.fromkeys(
        ("latest", "gpus", "rollup_1m", "rollup_1h")
    )
    assert {LakeTable.open(store, TABLES[name]).version for name in said.tables} == {0}


def test_without_news_nothing_is_committed(store: StoreUrl) -> None:
    clock = Clock(NOON + 2 * MINUTE)
    following = follower(store, clock)
    put(store, canonical([{"timestamp": NOON + n} for n in range(3)]))
    following.step()
    versions = {name: LakeTable.open(store, TABLES[name]).version for name in TABLES}
    clock.us += HOUR
    following.step()
    hours = following.step().tables["rollup_1h"]
    assert hours.closed == moment_of(NOON + HOUR)
    after = {name: LakeTable.open(store, TABLES[name]).version for name in TABLES}
    assert after == {**versions, "rollup_1h": versions["rollup_1h"] + 1}


class Crash(Exception):
    """Stands for a process that ends."""


@pytest.fixture
def crash_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Say after how many commits of derived tables the process ends."""
    left = [10**9]
    real = LakeTable.replace

    def replace(
        self: LakeTable,
        added: Sequence[NewFile],
        removed: Sequence[DataFile],
        transactions: Mapping[str, int],
        fence: Fence,
    ) -> int:
        version = real(self, added, removed, transactions, fence)
        left[0] -= 1
        if left[0] == 0:
            raise Crash
        return version

    monkeypatch.setattr(LakeTable, "replace", replace)
    return lambda commits: left.__setitem__(0, commits)


def test_a_crash_between_any_two_commits_changes_nothing_in_the_end(
    store: StoreUrl, crash_after: Callable[[int], None]
) -> None:
    readings = shuffled(any_readings(random.Random(3), 300, 2 * HOUR), random.Random(3))
    clock = Clock(NOON + 3 * HOUR)
    options = DeriveOptions(piece_rows=200, dense_rows=0)
    put(store, readings.slice(0, 100))
    crash_after(3)  # both snapshots and the minutes, and not the hours
    with pytest.raises(Crash):
        follower(store, clock, options).step()
    put(store, readings.slice(100))
    for commits in (1, 3):  # `latest` without `gpus`; then one piece of the minutes, all late
        crash_after(commits)
        with pytest.raises(Crash):
            follower(store, clock, options).step()
    crash_after(10**9)
    said = follower(store, clock, options).step()
    assert said.tables["rollup_1m"].late == 2
    check_all(store, readings)


def test_a_first_run_goes_on_where_it_was_stopped(store: StoreUrl) -> None:
    readings = any_readings(random.Random(4), 300, 6 * HOUR)
    put(store, readings)
    now_s = (NOON + 7 * HOUR) / SECOND
    options = DeriveOptions(piece_rows=100)
    turns = iter([False, True])
    first = minutes(store, options).step(now_s, stopped=lambda: next(turns))
    assert (first.pieces, first.unfinished) == (1, True)
    assert first.closed is not None
    assert moment_of(NOON) < first.closed < moment_of(NOON + 6 * HOUR)
    again = minutes(store, replace(options, turn_s=0))
    second, third = again.step(now_s), again.step(now_s, drain=True)
    assert (second.pieces, second.unfinished) == (1, True), "others have their turn"
    assert not third.unfinished
    rows = first.rows + second.rows + third.rows
    assert rows == pytest.approx(300, abs=5), "nothing was computed twice"
    check_minutes(store, readings)


def test_late_readings_of_one_gpu_compute_that_gpu(
    store: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = any_readings(random.Random(5), 200, HOUR)
    put(store, readings)
    rollup = minutes(store)
    step(rollup, NOON + 2 * HOUR)
    tasks: list[Task] = []
    real = RollupTable.compute

    def compute(self: RollupTable, task: Task) -> None:
        tasks.append(task)
        real(self, task)

    monkeypatch.setattr(RollupTable, "compute", compute)
    moments = [NOON + n * 20 * MINUTE for n in range(3)]
    late = canonical([{"uuid": "GPU-1", "pod": "late", "timestamp": at} for at in moments])
    put(store, late)
    step(rollup, NOON + 2 * HOUR)
    assert [task.uuids for task in tasks] == [frozenset({"GPU-1"})]
    assert [span.low for span in tasks[0].piece.spans] == moments
    check_minutes(store, pa.concat_tables([readings, late]))


def test_rollups_outlive_their_readings(store: StoreUrl) -> None:
    options = DeriveOptions(dense_rows=0, prune_interval_s=0)
    following = follower(store, Clock(NOON + 2 * HOUR), options)
    old = canonical([{"uuid": "GPU-1", "timestamp": NOON + n} for n in range(2)])
    old = pa.concat_tables([old, canonical([{"uuid": "GPU-2", "value": 2.0}])])
    put(store, old)
    following.step()
    _remove_all_readings(store)
    # Fewer readings of a known window, more of another, and a window that nobody knew.
    late = canonical(
        [
            {"uuid": "GPU-1", "timestamp": NOON + 7, "value": 7.0},
            *({"uuid": "GPU-2", "timestamp": NOON + n, "value": 7.0} for n in range(1, 5)),
            {"uuid": "GPU-3", "value": 3.0},
        ]
    )
    put(store, late)
    following.step(drain=True)
    known = [row for row in late.to_pylist() if row["uuid"] == "GPU-3"]
    wanted = pa.concat_tables([old, pa.Table.from_pylist(known, old.schema)])
    for name, width in (("rollup_1m", MINUTE), ("rollup_1h", HOUR)):
        same_rows(stored(store, name), expected_rollup(wanted, width), name)
    same_rows(stored(store, "latest"), expected_latest(late), "latest")
    # A rebuild keeps what it cannot compute again, unless it is told to be exact.
    rebuild(spark_session(), store, FENCE, "rollup_1h", options=options)
    same_rows(stored(store, "rollup_1h"), expected_rollup(wanted, HOUR), "rollup_1h")
    rebuild(spark_session(), store, FENCE, "rollup_1h", exact=True, options=options)
    same_rows(stored(store, "rollup_1h"), expected_rollup(late, HOUR), "rollup_1h")


def test_series_whose_readings_are_gone_leave_latest_and_gpus_stay(store: StoreUrl) -> None:
    options = DeriveOptions(prune_interval_s=0)
    clock = Clock(NOON + 2 * HOUR)
    old = canonical([{"uuid": "GPU-1"}, {"uuid": "GPU-2"}])
    put(store, old)
    follower(store, clock, options).step()
    _remove_all_readings(store)
    new = canonical([{"uuid": "GPU-2", "timestamp": NOON + HOUR}])
    put(store, new)
    follower(store, clock, options).step()
    same_rows(stored(store, "latest"), expected_latest(new), "latest")
    same_rows(stored(store, "gpus"), expected_gpus(pa.concat_tables([old, new])), "gpus")


def test_the_upkeep_may_move_files_under_a_rollup(
    store: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = any_readings(random.Random(9), 300, HOUR)
    put(store, readings.slice(0, 100), readings.slice(100, 100))
    rollup = minutes(store)
    step(rollup, NOON + 2 * HOUR)
    put(store, readings.slice(200))
    _merge_all(store, "readings")
    real, turns = RollupTable._job, [0]

    def job(self: RollupTable, *args: object, **named: object) -> list[NewFile]:
        turns[0] += 1
        made: list[NewFile] = real(self, *args, **named)  # type: ignore[arg-type]  # as they came
        if turns[0] == 1:
            _merge_all(store, "rollup_1m")
        return made

    monkeypatch.setattr(RollupTable, "_job", job)
    step(rollup, NOON + 2 * HOUR)
    assert turns[0] >= 2
    check_minutes(store, readings)


def test_a_log_that_was_cleaned_is_made_up_for_by_the_whole_table(
    store: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = any_readings(random.Random(10), 200, HOUR)
    put(store, readings.slice(0, 100))
    clock = Clock(NOON + 2 * HOUR)
    follower(store, clock).step()
    put(store, readings.slice(100))

    def gone(self: LakeTable, after: int, upto: int) -> list[DataFile]:
        raise HistoryGone("the log is short")

    monkeypatch.setattr(LakeTable, "added_between", gone)
    follower(store, clock).step(drain=True)
    check_all(store, readings)


def test_a_rebuild_mends_the_span_it_is_given_and_no_open_window(store: StoreUrl) -> None:
    readings = any_readings(random.Random(11), 200, 2 * HOUR)
    put(store, readings)
    step(minutes(store), NOON + HOUR + 30 * MINUTE)
    closed = NOON + HOUR + 29 * MINUTE
    _damage(store, "rollup_1m")
    told: list[tuple[int, int]] = []
    low, high = moment_of(NOON + 30 * MINUTE), moment_of(NOON + 5 * HOUR)
    said = rebuild(
        spark_session(), store, FENCE, "rollup_1m", low=low, high=high, exact=True, options=SMALL,
        told=lambda done, of: told.append((done, of)),
    )  # fmt: skip
    assert told[-1] == (said.pieces, said.pieces)
    wanted = [
        row
        for row in expected_rollup(readings, MINUTE, closed)
        if micros(row["start"]) >= NOON + 30 * MINUTE
    ]
    mended = stored(store, "rollup_1m")
    right = [row for row in mended.to_pylist() if micros(row["start"]) >= NOON + 30 * MINUTE]
    same_rows(pa.Table.from_pylist(right, mended.schema), wanted, "rollup_1m")
    assert len(right) < mended.num_rows, "the rest was left alone"


def test_what_cannot_be_rebuilt_is_said(store: StoreUrl) -> None:
    def refused(table: str, **named: object) -> str:
        with pytest.raises(PipelineError) as error:
            rebuild(spark_session(), store, FENCE, table, **named)  # type: ignore[arg-type]
        return str(error.value)

    noon = moment_of(NOON)
    assert "rollup_1m, rollup_1h, latest, gpus" in refused("readings")
    assert "whole" in refused("latest", low=noon)
    assert "no time between" in refused("rollup_1h", low=noon, high=noon - timedelta(hours=1))


def test_a_follower_whose_store_was_taken_over_ends(store: StoreUrl) -> None:
    put(store, canonical([{}]))
    LakeTable.open(store, TABLES["latest"]).claim(Fence(FENCE.epoch + 1, "another"))
    with pytest.raises(Fenced):
        follower(store, Clock(NOON + HOUR)).run(Event())
    assert stored(store, "latest").num_rows == 0


def test_a_failed_step_is_tried_again(store: StoreUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Event()
    following = follower(store, Clock(NOON), DeriveOptions(interval_s=0))
    problems: list[str] = []

    def failing(**named: object) -> Progress:
        problems.append(following.problem)
        if len(problems) == 1:
            raise PipelineError("the disk is full\nand more")
        if len(problems) == 3:
            stop.set()
        return Progress(0)

    monkeypatch.setattr(following, "step", failing)
    following.run(stop)
    assert problems == ["", "the disk is full", ""]


def _remove_all_readings(store: StoreUrl) -> None:
    table = LakeTable.open(store, TABLES["readings"])
    table.commit((), table.files(), {f"{REMOVED_APP}2025-07-18": 1}, FENCE, once=False)


def _merge_all(store: StoreUrl, name: str) -> None:
    table = LakeTable.open(store, TABLES[name])
    assert compact(table, Merge(tuple(table.files())), FENCE) is not None


def _damage(store: StoreUrl, name: str) -> None:
    """Rows that say too much, and one that should not be there."""
    table = LakeTable.open(store, TABLES[name])
    rows = stored(store, name)
    place = rows.schema.get_field_index("count")
    much = pa.array([10**6] * rows.num_rows)
    wrong = rows.set_column(place, rows.schema.field("count"), much)
    stray = rows.slice(rows.num_rows - 1).to_pylist()[0] | {"uuid": "GPU-stray"}
    wrong = pa.concat_tables([wrong, pa.Table.from_pylist([stray], rows.schema)])
    with table.files_of.writer({"day": "2025-07-18"}) as writer:
        writer.write(wrong)
    assert writer.file is not None
    table.replace([writer.file], table.files(), {}, FENCE)
