"""Commits that happen once and in turn, files found by their statistics, and the log's history."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from hypothesis import given
from hypothesis import strategies as st

from nexus.lake import table as lake_table
from nexus.lake.errors import Fenced, FilesMoved, HistoryGone, Replayed, StoreError
from nexus.lake.fence import WRITER_APP, Fence, last_epoch
from nexus.lake.history import commit_name
from nexus.lake.table import LakeTable
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
from support.readings import examples


@pytest.fixture
def store(tmp_path: Path) -> StoreUrl:
    return store_in(tmp_path)


@pytest.fixture
def table(store: StoreUrl) -> LakeTable:
    return LakeTable.open(store, READINGS)


def rows_in(table: LakeTable) -> int:
    return int(rows_of(table).num_rows)


# Commits


def test_every_table_of_the_model_can_be_made_and_opened(store: StoreUrl) -> None:
    for spec in TABLES.values():
        LakeTable.open(store, spec)
        found = LakeTable.open(store, spec, create=False)
        assert found.version == 0
        assert found.delta.metadata().partition_columns == list(spec.partitions)


def test_a_table_that_is_not_there_is_said_to_be_missing(store: StoreUrl, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no table readings"):
        LakeTable.open(store, READINGS, create=False)
    assert LakeTable.find(store, READINGS) is None
    assert list(tmp_path.iterdir()) == []


def test_a_commit_shows_its_rows_and_its_number(table: LakeTable, store: StoreUrl) -> None:
    version = table.append([written(table.files_of, every_second(3))], "app", 7, FENCE)
    assert version == table.version == 1
    other = LakeTable.open(store, READINGS)
    assert rows_in(other) == 3
    assert other.transaction_version("app") == 7
    assert other.transaction_version("another") is None


@pytest.mark.parametrize("number", [7, 6, 0])
def test_a_replayed_batch_is_recognised(table: LakeTable, number: int) -> None:
    table.append([written(table.files_of, every_second(3))], "app", 7, FENCE)
    with pytest.raises(Replayed, match=f"number {number} of app"):
        table.append([written(table.files_of, every_second(3))], "app", number, FENCE)
    assert rows_in(table) == 3


def test_a_replay_is_recognised_by_a_handle_that_has_not_seen_the_first(
    table: LakeTable, store: StoreUrl
) -> None:
    stale = LakeTable.open(store, READINGS)
    append(table, every_second(3))
    with pytest.raises(Replayed):
        stale.append([written(table.files_of, every_second(3))], "app", 0, FENCE)
    assert rows_in(table) == 3


def test_apps_do_not_disturb_each_other(table: LakeTable, store: StoreUrl) -> None:
    stale = LakeTable.open(store, READINGS)
    append(table, every_second(3), app="one")
    append(stale, every_second(3), app="two")
    assert rows_in(table) == 6


def test_a_commit_whose_answer_was_lost_is_not_made_twice(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(table, monkeypatch)
    assert table.append([written(table.files_of, every_second(3))], "app", 0, FENCE) == 1
    assert rows_in(table) == 3


def test_a_replacement_whose_answer_was_lost_says_that_its_files_moved(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(table, every_second(3))
    lose_answers(table, monkeypatch)
    with pytest.raises(FilesMoved):
        table.replace([written(table.files_of, every_second(2))], table.files(), {"a": 1}, FENCE)
    assert rows_in(table) == 2
    assert table.transaction_version("a") == 1


def test_a_store_that_stays_away_is_an_error_in_words(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise OSError("connection refused")

    monkeypatch.setattr(lake_table, "BACKOFF_S", 0)
    monkeypatch.setattr(table, "_write", away)
    with pytest.raises(StoreError, match="commit failed: connection refused"):
        append(table, every_second(1))


def test_threads_that_commit_at_once_all_succeed(store: StoreUrl, table: LakeTable) -> None:
    def write(worker: int) -> None:
        own = LakeTable.open(store, READINGS)
        for number in range(4):
            file = written(own.files_of, every_second(1))
            own.append([file], f"app-{worker}", number, FENCE)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert rows_in(table) == 16
    assert table.version == 16


def lose_answers(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the next commit succeed and then fail, as a broken connection does."""
    write: Callable[..., None] = table._write

    def lost(*arguments: Any) -> None:
        monkeypatch.setattr(table, "_write", write)
        write(*arguments)
        raise OSError("connection reset")

    monkeypatch.setattr(table, "_write", lost)


# Fencing


def test_a_zombie_is_refused_once_the_next_writer_has_committed(
    table: LakeTable, store: StoreUrl
) -> None:
    append(table, every_second(1), fence=Fence(1, "old"))
    zombie = LakeTable.open(store, READINGS)
    append(table, every_second(1), fence=Fence(2, "new"))
    with pytest.raises(Fenced, match="another collector took over"):
        zombie.append([written(table.files_of, every_second(1))], "z", 0, Fence(1, "old"))
    assert rows_in(table) == 2


def test_a_claim_shuts_a_zombie_out_before_the_first_commit(
    table: LakeTable, store: StoreUrl
) -> None:
    zombie = LakeTable.open(store, READINGS)
    table.claim(Fence(2, "new"))
    with pytest.raises(Fenced):
        append(zombie, every_second(1), fence=Fence(1, "old"))
    with pytest.raises(Fenced):
        zombie.claim(Fence(1, "old"))
    table.claim(Fence(2, "new"))
    assert table.version == 1, "a claim that stands needs no commit"


def test_a_zombie_cannot_replace_files_either(table: LakeTable, store: StoreUrl) -> None:
    append(table, every_second(1))
    zombie = LakeTable.open(store, READINGS)
    table.claim(Fence(2, "new"))
    with pytest.raises(Fenced):
        zombie.commit((), zombie.files(), {}, FENCE, once=False)
    assert rows_in(table) == 1


def test_the_tables_know_the_last_turn(table: LakeTable, store: StoreUrl) -> None:
    assert last_epoch(store) == 0
    table.claim(Fence(5, "new"))
    assert last_epoch(store) == 5


def test_delta_itself_accepts_a_lower_number_from_a_fresh_handle(table: LakeTable) -> None:
    """Why every commit looks at the numbers first: delta-rs would not refuse."""
    append(table, every_second(1), fence=Fence(2, "new"))
    table.delta.create_write_transaction(
        [],
        "append",
        table.delta.schema(),
        partition_by=["day"],
        commit_properties=CommitProperties(app_transactions=[Transaction(WRITER_APP, 1)]),
    )
    table.refresh()
    assert table.transaction_version(WRITER_APP) == 1


# Replacing


def test_files_are_replaced_in_one_commit(table: LakeTable) -> None:
    append(table, every_second(3), every_second(3, uuid="GPU-2"))
    first = [file for file in table.files() if file.bounds["uuid"][0] == "GPU-1"]
    new = written(table.files_of, every_second(1, uuid="GPU-3"))
    table.replace([new], first, {"readings": 4, "closed": 9}, FENCE)
    assert sorted(set(rows_of(table).column("uuid").to_pylist())) == ["GPU-2", "GPU-3"]
    assert table.transaction_version("readings") == 4
    assert table.transaction_version("closed") == 9


def test_a_replacement_may_carry_the_same_number_again(table: LakeTable) -> None:
    """A rebuild does not move a follower's progress."""
    append(table, every_second(3))
    for _ in range(2):
        new = written(table.files_of, every_second(2))
        table.replace([new], table.files(), {"readings": 4}, FENCE)
    assert rows_in(table) == 2


def test_files_that_were_replaced_meanwhile_are_not_replaced_again(
    table: LakeTable, store: StoreUrl
) -> None:
    """Two compactions of the same files: in Delta itself both would succeed, and double rows."""
    append(table, every_second(3), every_second(3))
    other = LakeTable.open(store, READINGS)
    removed = other.files()
    for racing in (table, other):
        new = written(table.files_of, every_second(6))
        if racing is table:
            racing.commit([new], removed, {}, FENCE, changes_data=False, once=False)
        else:
            with pytest.raises(FilesMoved):
                racing.commit([new], removed, {}, FENCE, changes_data=False, once=False)
    assert rows_in(table) == 6


# Finding files


def test_files_are_found_by_time_without_reading_them(table: LakeTable, tmp_path: Path) -> None:
    hours = [every_second(60, NOON + timedelta(hours=hour)) for hour in range(6)]
    append(table, *hours)
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    found = table.files(NOON + timedelta(hours=2), NOON + timedelta(hours=3))
    assert [file.rows for file in found] == [60, 60]
    assert len(table.files()) == 6
    assert len(table.files(low=NOON + timedelta(hours=4))) == 2
    assert len(table.files(high=NOON)) == 1


def test_the_edges_of_a_file_are_inside_it_to_the_microsecond(table: LakeTable) -> None:
    edges = [NOON + timedelta(microseconds=999), NOON + timedelta(seconds=1, microseconds=1)]
    append(table, readings_at(edges))
    for moment in edges:
        assert len(table.files(moment, moment)) == 1
    assert table.files(high=NOON - timedelta(microseconds=1)) == []
    assert table.files(low=NOON + timedelta(seconds=1, milliseconds=2)) == []


def test_files_are_found_by_gpu(table: LakeTable) -> None:
    append(table, every_second(1, uuid="GPU-a"), every_second(1, uuid="GPU-c"))
    found = table.files(ranges={"uuid": ("GPU-b", "GPU-d")})
    assert [file.bounds["uuid"] for file in found] == [("GPU-c", "GPU-c")]


def test_a_file_without_statistics_may_hold_anything(table: LakeTable) -> None:
    from dataclasses import replace

    bare = replace(written(table.files_of, every_second(3)), stats='{"numRecords":3}')
    table.append([bare], "app", 0, FENCE)
    assert len(table.files(NOON + timedelta(days=9))) == 1
    assert len(table.files(ranges={"uuid": ("x", "y")})) == 1


def test_a_file_says_what_its_log_says(table: LakeTable) -> None:
    append(table, every_second(3, NOON + timedelta(microseconds=1)))
    (listed,) = table.files()
    (added,) = table.added_between(0, 1)
    assert listed == added
    assert listed.low == NOON
    assert listed.high == NOON + timedelta(seconds=2, milliseconds=1)


# History


def test_what_versions_added_is_told_from_the_log(table: LakeTable) -> None:
    versions = [append(table, every_second(n + 1)) for n in range(4)]
    added = table.added_between(versions[0], versions[2])
    assert [file.rows for file in added] == [2, 3]
    assert table.added_between(versions[3], versions[3]) == []


def test_a_compaction_adds_nothing_and_takes_nothing(table: LakeTable) -> None:
    append(table, every_second(1), every_second(2))
    new = written(table.files_of, every_second(3))
    table.commit([new], table.files(), {}, FENCE, changes_data=False, once=False)
    append(table, every_second(4))
    assert sorted(file.rows for file in table.added_between(0, table.version)) == [1, 2, 4]


def test_what_was_added_and_deleted_again_is_not_told(table: LakeTable) -> None:
    append(table, every_second(1))
    append(table, every_second(2))
    table.commit((), [f for f in table.files() if f.rows == 1], {}, FENCE, once=False)
    assert [file.rows for file in table.added_between(0, table.version)] == [2]


def test_history_that_was_cleaned_is_said_to_be_gone(table: LakeTable, tmp_path: Path) -> None:
    for _ in range(3):
        append(table, every_second(1))
    (tmp_path / "readings" / commit_name(2)).unlink()
    assert len(table.added_between(2, 3)) == 1
    with pytest.raises(HistoryGone, match="version 2 is no longer in the log"):
        table.added_between(0, 3)


# The log


def test_the_log_has_checkpoints_so_that_opening_reads_few_commits(
    table: LakeTable, store: StoreUrl, tmp_path: Path
) -> None:
    for number in range(105):
        table.commit((), (), {"app": number}, FENCE)
    log = tmp_path / "readings" / "_delta_log"
    checkpoints = sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet"))
    assert checkpoints[-1] >= 99
    # What stands before the last checkpoint is not needed to open the table.
    for version in range(checkpoints[-1]):
        (log / f"{version:020d}.json").unlink()
    fresh = LakeTable.open(store, READINGS)
    assert fresh.version == 105
    assert fresh.transaction_version("app") == 104
    assert fresh.transaction_version(WRITER_APP) == FENCE.epoch


def test_a_refresh_reads_new_commits_only(
    table: LakeTable, store: StoreUrl, tmp_path: Path
) -> None:
    for _ in range(5):
        append(table, every_second(1))
    follower = LakeTable.open(store, READINGS)
    append(follower, every_second(1), app="follower")
    append(table, every_second(1))
    log = tmp_path / "readings" / "_delta_log"
    for version in range(5):  # whoever read them again would fail
        (log / f"{version:020d}.json").write_bytes(b"broken")
    assert follower.refresh() == 7
    assert len(follower.files()) == 7
    append(follower, every_second(1), app="follower")
    assert follower.version == 8


@examples(15)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(0, 9), st.booleans()),
        max_size=14,
    )
)
def test_the_numbers_of_apps_are_those_of_the_log(
    commits: list[tuple[int, str, int, bool]],
) -> None:
    """Whoever commits, in whatever order, and however seldom one looks."""
    with TemporaryDirectory() as folder:
        store = store_in(Path(folder))
        handles = [LakeTable.open(store, READINGS) for _ in range(2)]
        for who, app, number, looks in commits:
            handles[who].replace((), (), {app: number}, FENCE)
            if looks:
                handles[0].refresh()
                handles[0].transaction_version("a")
        for handle in handles:
            handle.refresh()
            for app in "abc":
                assert handle.transaction_version(app) == handle.delta.transaction_version(app)


def test_a_handle_older_than_the_log_finds_its_way(store: StoreUrl, table: LakeTable) -> None:
    stale = LakeTable.open(store, READINGS)
    stale_too = LakeTable.open(store, READINGS)
    table.delta.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    for _ in range(52):
        append(table, every_second(1))
    table.delta.cleanup_metadata()
    assert stale.refresh() == table.version
    append(stale_too, every_second(1), app="late")
    assert rows_in(table) == 53
    assert DeltaTable(store.table_uri("readings")).transaction_version("late") == 0
