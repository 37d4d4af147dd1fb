"""The upkeep of a store: bounded work, and readers and followers that notice nothing."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from nexus.lake.errors import Fenced, HistoryGone
from nexus.lake.fence import READINGS_APP, REMOVED_APP, Fence
from nexus.lake.history import commit_name
from nexus.lake.maintenance import (
    FOLLOWERS,
    Limits,
    Report,
    TableReport,
    followed_upto,
    maintain,
)
from nexus.lake.merge import merged
from nexus.lake.plan import Sizes, Step
from nexus.lake.table import LOG_KEPT, LakeTable
from nexus.lake.url import StoreUrl
from nexus.telemetry.tables import TABLES
from support.lake import (
    FENCE,
    NOON,
    READINGS,
    append,
    every_second,
    readings_at,
    rows_of,
    store_in,
    written,
)

DAY = timedelta(days=1)
# Everything is small, and two files are enough.
EAGER = Limits(sizes=Sizes(steps=(Step(1000, 2000, 64),), least_files=2))
KEEP = Limits(retention={})
LATER = NOON + timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path) -> StoreUrl:
    return store_in(tmp_path)


@pytest.fixture
def table(store: StoreUrl) -> LakeTable:
    return LakeTable.open(store, READINGS)


def report_of(report: Report, name: str = "readings") -> TableReport:
    return next(found for found in report.tables if found.table == name)


def parquets(table: LakeTable) -> set[str]:
    folder = Path(table.store.table_uri(table.spec.name))
    return {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")} - {
        str(path.relative_to(folder)) for path in folder.glob("_delta_log/*")
    }


def age(table: LakeTable, path: str, by: timedelta) -> None:
    """Make a file older."""
    then = datetime.now(UTC).timestamp() - by.total_seconds()
    os.utime(Path(table.store.table_uri(table.spec.name)) / path, (then, then))


# Merging


def test_small_files_become_one_and_no_row_changes(table: LakeTable, store: StoreUrl) -> None:
    for number in range(5):
        append(table, every_second(10, uuid=f"GPU-{number}"))
    before = rows_of(table)
    report = maintain(store, FENCE, LATER, EAGER)
    assert rows_of(table).equals(before)
    done = report_of(report)
    assert (done.files, done.merged, done.into, done.rows) == (1, 5, 1, 50)
    assert report.complete
    assert [found.table for found in report.tables] == ["readings"]


def test_a_second_run_finds_nothing_to_do(table: LakeTable, store: StoreUrl) -> None:
    append(table, every_second(10), every_second(10, uuid="GPU-2"))
    maintain(store, FENCE, LATER, EAGER)
    version = table.refresh()
    done = report_of(maintain(store, FENCE, LATER, EAGER))
    assert (done.merged, done.days, done.vacuumed) == (0, 0, 0)
    assert table.refresh() == version


def test_a_reader_that_began_before_ends_well(table: LakeTable, store: StoreUrl) -> None:
    for number in range(4):
        append(table, every_second(10, uuid=f"GPU-{number}"))
    table.refresh()
    old_version, old_files = table.version, table.files()
    reading = table.files_of.read([file.path for file in old_files], ["uuid"])
    first = next(iter(reading))
    done = report_of(maintain(store, FENCE, LATER, EAGER))
    assert done.merged == 4
    rest = sum(batch.num_rows for batch in reading)
    assert first.num_rows + rest == 40
    then = DeltaTable(store.table_uri("readings"), version=old_version)
    assert len(then.file_uris()) == 4
    assert all(Path(uri).exists() for uri in then.file_uris())


def test_appends_go_on_during_a_merge(
    table: LakeTable, store: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nexus.lake import compaction

    append(table, every_second(10), every_second(10, uuid="GPU-2"))

    def meanwhile(*arguments: object) -> Iterator[pa.Table]:
        append(table, every_second(10, uuid="GPU-3"), app="meanwhile")
        yield from merged(*arguments)  # type: ignore[arg-type] # passed on as they came

    monkeypatch.setattr(compaction, "merged", meanwhile)
    assert report_of(maintain(store, FENCE, LATER, EAGER)).merged == 2
    assert rows_of(table).num_rows == 30


def test_an_upkeep_that_was_replaced_is_shut_out(table: LakeTable, store: StoreUrl) -> None:
    append(table, every_second(10), every_second(10, uuid="GPU-2"))
    table.claim(Fence(2, "new"))
    with pytest.raises(Fenced):
        maintain(store, FENCE, LATER, EAGER)
    assert len(table.files()) == 2


def test_work_is_bounded(table: LakeTable, store: StoreUrl) -> None:
    for day in range(6):
        start = NOON - day * DAY
        append(table, every_second(10, start), every_second(10, start, "GPU-2"))
    limits = Limits(merge_rows=40, sizes=EAGER.sizes)
    report = maintain(store, FENCE, LATER, limits)
    assert (report_of(report).rows, report.complete) == (40, False)
    while not report.complete:
        report = maintain(store, FENCE, LATER, limits)
    assert report_of(report).files == 6


def test_it_stops_when_told(table: LakeTable, store: StoreUrl) -> None:
    append(table, every_second(10), every_second(10, uuid="GPU-2"))
    asked = iter([False, *[True] * 100])
    report = maintain(store, FENCE, LATER, EAGER, stopped=lambda: next(asked))
    assert not report.complete
    assert len(table.files()) == 2
    assert len(parquets(table)) == 2, "nothing is left of the merge that was given up"


def test_a_broken_file_is_reported_and_the_others_are_merged(
    table: LakeTable, store: StoreUrl
) -> None:
    for start in (NOON, NOON - DAY):
        append(table, every_second(10, start), every_second(10, start, "GPU-2"))
    (Path(store.uri) / "readings" / table.files(high=NOON - DAY)[0].path).write_bytes(b"broken")
    done = report_of(maintain(store, FENCE, LATER, EAGER))
    assert "Parquet" in done.problem
    assert (done.merged, done.files) == (2, 3)


def test_a_broken_table_is_reported_and_the_others_have_their_turn(store: StoreUrl) -> None:
    for name in ("readings", "latest"):
        LakeTable.open(store, TABLES[name])
    (Path(store.uri) / "readings" / commit_name(0)).write_bytes(b"broken")
    report = maintain(store, FENCE, LATER, EAGER)
    assert report_of(report).problem
    assert not report_of(report, "latest").problem


# Retention


def test_old_days_go_and_an_imported_archive_stays(table: LakeTable, store: StoreUrl) -> None:
    long_ago = NOON - 100 * DAY
    append(table, readings_at([long_ago]), readings_at([long_ago + DAY], ingested=NOON))
    append(table, readings_at([NOON]))
    done = report_of(maintain(store, FENCE, LATER, Limits()))
    assert done.days == 1
    assert sorted(rows_of(table)["timestamp"].to_pylist()) == [long_ago + DAY, NOON]
    table.refresh()
    noted = [
        table.transaction_version(f"{REMOVED_APP}{(long_ago + n * DAY).date()}") for n in (0, 1)
    ]
    assert noted == [1, None]
    later = report_of(maintain(store, FENCE, NOON + 31 * DAY, Limits()))
    assert later.days == 2
    assert rows_of(table).num_rows == 0


def test_each_table_is_kept_for_its_own_time(store: StoreUrl) -> None:
    """Rollups do not say when they came: their files do."""
    now = datetime.now(UTC)
    for name in ("rollup_1m", "rollup_1h"):
        spec = TABLES[name]
        rollup = LakeTable.open(store, spec)
        said = {"start": NOON, "count": 1, "missing": 0, "last_timestamp": NOON}
        numbers = ("min", "max", "mean", "last", "p50", "p95", "p99")
        said |= dict.fromkeys(numbers, 1.0)
        columns = [pa.array([said.get(f.name, "")], f.type) for f in rollup.files_of.schema]
        rows = pa.table(columns, schema=rollup.files_of.schema)
        append_rollup = written(rollup.files_of, rows)
        rollup.append([append_rollup], "app", 0, FENCE)
    assert all(report.days == 0 for report in maintain(store, FENCE, now + 89 * DAY).tables)
    gone = maintain(store, FENCE, now + 91 * DAY)
    assert (report_of(gone, "rollup_1m").days, report_of(gone, "rollup_1h").days) == (1, 0)


def test_retention_can_be_chosen_or_left_out(table: LakeTable, store: StoreUrl) -> None:
    append(table, readings_at([NOON - 3 * DAY]))
    assert report_of(maintain(store, FENCE, NOON, Limits(retention={}))).days == 0
    short = Limits(retention={"readings": DAY})
    assert report_of(maintain(store, FENCE, NOON, short)).days == 1


# Vacuum


def test_files_of_a_batch_that_was_cut_short_are_removed_when_they_are_old(
    table: LakeTable, store: StoreUrl
) -> None:
    append(table, every_second(3))
    (kept,) = parquets(table)
    old, new = (written(table.files_of, every_second(3)).path for _ in range(2))
    for path in (kept, old):
        age(table, path, timedelta(days=2))
    assert report_of(maintain(store, FENCE, LATER)).vacuumed == 1
    assert parquets(table) == {kept, new}


def test_merged_files_stay_for_readers_and_go_in_the_end(table: LakeTable, store: StoreUrl) -> None:
    append(table, every_second(3), every_second(3, uuid="GPU-2"))
    for path in parquets(table):
        age(table, path, timedelta(days=2))  # an old file that is merged now may be read now
    assert report_of(maintain(store, FENCE, LATER, EAGER)).vacuumed == 0
    assert len(parquets(table)) == 3
    at_once = Limits(vacuum_hours=0)
    assert report_of(maintain(store, FENCE, LATER, at_once)).vacuumed == 2
    assert rows_of(table).num_rows == 6


# The log, and those who follow it


def follow(store: StoreUrl, version: int) -> None:
    """Say that every table which follows `readings` has read it up to a version."""
    for name in FOLLOWERS:
        LakeTable.open(store, TABLES[name]).replace((), (), {READINGS_APP: version}, FENCE)


def test_the_slowest_follower_counts(store: StoreUrl) -> None:
    assert followed_upto(store) is None
    follow(store, 7)
    LakeTable.open(store, TABLES["gpus"]).replace((), (), {READINGS_APP: 3}, FENCE)
    assert followed_upto(store) == 3


def test_what_a_follower_has_yet_to_read_is_not_merged(table: LakeTable, store: StoreUrl) -> None:
    append(table, every_second(1), every_second(2))
    read = table.version
    append(table, every_second(3), every_second(4))
    follow(store, read)
    maintain(store, FENCE, LATER, EAGER)
    table.refresh()
    assert sorted(file.rows for file in table.files()) == [3, 3, 4]
    assert [file.rows for file in table.added_between(read, table.version)] == [3, 4]
    follow(store, table.version)
    maintain(store, FENCE, LATER, EAGER)
    table.refresh()
    assert [file.rows for file in table.files()] == [10]


def old_log(table: LakeTable) -> None:
    """Many commits, all of them longer ago than the log is kept."""
    for number in range(60):
        table.commit((), (), {"many": number}, FENCE)
    for path in (Path(table.store.uri) / "readings" / "_delta_log").iterdir():
        age(table, f"_delta_log/{path.name}", LOG_KEPT + timedelta(hours=1))


def commits_kept(store: StoreUrl) -> int:
    return len(list((Path(store.uri) / "readings" / "_delta_log").glob("*.json")))


def test_an_old_log_is_cleaned_up_to_a_checkpoint(table: LakeTable, store: StoreUrl) -> None:
    append(table, every_second(3))
    old_log(table)
    assert not report_of(maintain(store, FENCE, limits=KEEP)).log_held
    assert commits_kept(store) < 20
    fresh = LakeTable.open(store, READINGS)
    assert (fresh.version, rows_of(fresh).num_rows) == (61, 3)
    assert fresh.transaction_version("many") == 59
    with pytest.raises(HistoryGone):
        fresh.added_between(0, 61)


def test_a_young_log_is_kept(table: LakeTable, store: StoreUrl) -> None:
    for number in range(60):
        table.commit((), (), {"many": number}, FENCE)
    maintain(store, FENCE, limits=KEEP)
    assert commits_kept(store) == 61


def test_the_log_is_held_for_a_follower_that_is_behind(table: LakeTable, store: StoreUrl) -> None:
    append(table, every_second(3))
    old_log(table)
    follow(store, 0)
    assert report_of(maintain(store, FENCE, limits=KEEP)).log_held
    assert [file.rows for file in table.added_between(0, table.version)] == [3]
    follow(store, table.version)
    assert not report_of(maintain(store, FENCE, limits=KEEP)).log_held
    assert commits_kept(store) < 20
