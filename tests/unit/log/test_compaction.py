"""Of the records with one key the last stays; offsets, producers and readers do not notice."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Thread

import pytest

from nexus.log import CompactionResult, LogConfig, PartitionLog, compaction
from nexus.log.swap import commit_swap
from nexus.wire.batch import iter_headers
from nexus.wire.compression import Codec
from nexus.wire.errors import StorageError
from support.logs import START_MS, Producer, append, make_batch, open_log, read_all

CONFIG = LogConfig(
    segment_bytes=1000,
    index_interval_bytes=200,
    compact=True,
    delete=False,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=1000,
)


def put(log: PartitionLog, key: bytes | None, value: bytes | None) -> None:
    append(log, make_batch([(key, value)]))


def compact(log: PartitionLog, now_ms: int = START_MS) -> CompactionResult:
    """Compact all there is now."""
    log.roll()
    log.flush()
    return log.compact(now_ms)


def state(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in read_all(log)}


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path / "p", CONFIG)


@pytest.mark.parametrize("codec", list(Codec))
def test_the_last_record_of_each_key_stays_at_its_offset(log: PartitionLog, codec: Codec) -> None:
    for n in range(100):
        pairs = [(f"{n % 7}".encode(), f"{n}".encode()), (b"same", f"{n}".encode())]
        append(log, make_batch(pairs, codec=codec))
    before = read_all(log)
    result = compact(log)
    after = read_all(log)
    assert after == [one for one in before if one.offset in {r.offset for r in after}]
    assert len(after) == 8
    assert state(log) == {one.key: one.value for one in before}
    assert result.records_removed == 192
    assert result.bytes_after < result.bytes_before
    assert result.segments_after < result.segments_before
    assert (log.end_offset, list(log.verify())) == (200, [])


@pytest.mark.parametrize("clean", [True, False])
def test_a_compacted_log_comes_back(log: PartitionLog, clean: bool) -> None:
    for n in range(100):
        put(log, f"{n % 7}".encode(), f"{n}".encode())
    compact(log)
    put(log, b"new", b"1")
    before = read_all(log)
    log.close() if clean else log.abandon()
    log = open_log(log.directory, CONFIG, clean=clean, recovery_point=0)
    assert read_all(log) == before
    assert log.damage == []


def test_a_reader_gets_to_the_end_from_every_offset(log: PartitionLog) -> None:
    for n in range(60):
        put(log, b"k", f"{n}".encode())
    compact(log)
    for offset in range(log.end_offset):
        read = read_all(log, start=offset)
        assert [record.value for record in read] == [b"59"], offset


def test_positions_advance_where_nothing_is_left(log: PartitionLog) -> None:
    put(log, b"k", b"v")
    put(log, b"k", None)
    compact(log)
    assert compact(log, START_MS + 1001).records_removed == 1
    assert read_all(log) == []
    piece = log.read(0, 1000, log.end_offset)
    assert piece is not None
    assert [header.next_offset for _, header in iter_headers(piece.read())][-1] == log.end_offset


def test_a_tombstone_stays_for_its_time_after_it_was_first_cleaned(log: PartitionLog) -> None:
    put(log, b"k", b"v")
    put(log, b"k", None)
    put(log, b"other", b"v")
    compact(log, START_MS)
    assert state(log) == {b"k": None, b"other": b"v"}
    compact(log, START_MS + 999)
    assert state(log) == {b"k": None, b"other": b"v"}
    compact(log, START_MS + 1001)
    assert state(log) == {b"other": b"v"}


def test_a_producers_last_batch_stays_though_its_record_went(log: PartitionLog) -> None:
    append(log, make_batch([(b"k", b"1")], producer=Producer(7)))
    append(log, make_batch([(b"k", b"2")], producer=Producer(7, 0, 1)))
    put(log, b"k", b"3")
    put(log, b"k", b"4")
    compact(log)
    assert [record.value for record in read_all(log)] == [b"4"]
    log.abandon()
    for snapshot in log.directory.glob("*.snapshot"):
        snapshot.unlink()
    log = open_log(log.directory, CONFIG, recovery_point=0)
    assert append(log, make_batch([(b"k", b"2")], producer=Producer(7, 0, 1))).duplicate
    assert not append(log, make_batch([(b"k", b"5")], producer=Producer(7, 0, 2))).duplicate


def test_records_without_a_key_go(log: PartitionLog) -> None:
    put(log, None, b"from before the log was compacted")
    put(log, b"k", b"v")
    compact(log)
    assert state(log) == {b"k": b"v"}


def test_little_that_is_new_is_left_for_later(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=10_000, compact=True, min_cleanable_dirty_ratio=0.5)
    log = open_log(tmp_path, config)
    for n in range(100):
        put(log, f"{n}".encode(), b"v")
    assert compact(log).segments_after == 1
    put(log, b"1", b"w")
    assert compact(log).segments_after == 0
    assert len(read_all(log)) == 101


def test_what_is_too_young_is_left_alone(tmp_path: Path) -> None:
    config = LogConfig(compact=True, min_compaction_lag_ms=1000, min_cleanable_dirty_ratio=0.0)
    log = open_log(tmp_path, config)
    put(log, b"k", b"1")
    put(log, b"k", b"2")
    assert compact(log, START_MS + 500).records_removed == 0
    assert compact(log, START_MS + 1500).records_removed == 1


def test_the_segment_that_is_written_to_and_what_is_not_on_disk_are_left_alone(
    log: PartitionLog,
) -> None:
    put(log, b"k", b"1")
    put(log, b"k", b"2")
    assert log.compact(START_MS).records_removed == 0
    log.roll()
    assert log.compact(START_MS).records_removed == 0
    log.flush()
    assert log.compact(START_MS).records_removed == 1


def test_more_keys_than_fit_the_memory_take_several_runs(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "KEYS_MAX", 10)
    for n in range(100):
        put(log, f"{n % 40}".encode(), f"{n}".encode())
    expected = state(log)
    runs = 0
    while compact(log).segments_after:
        runs += 1
    assert runs > 3
    assert state(log) == expected
    assert len(read_all(log)) == 40


def test_damage_is_reported_and_nothing_is_rewritten(log: PartitionLog) -> None:
    for n in range(60):
        put(log, b"k", f"{n}".encode())
    log.roll()
    log.flush()
    path = log.segments[1].path
    data = bytearray(path.read_bytes())
    data[65] ^= 1
    path.write_bytes(data)
    damage = log.compact(START_MS).damage
    assert damage is not None
    assert (damage.file, damage.position) == (path, 0)
    assert len(log.segments) > 3
    assert path.read_bytes() == data


def test_a_batch_that_cannot_be_looked_into_stays(log: PartitionLog) -> None:
    from nexus.wire.batch import crc_of

    batch = bytearray(make_batch([(b"k", b"a" * 100)], codec=Codec.GZIP))
    batch[70:80] = bytes(10)
    batch[17:21] = crc_of(memoryview(batch)).to_bytes(4, "big")
    append(log, memoryview(batch))
    put(log, b"k", b"1")
    put(log, b"k", b"2")
    assert compact(log).records_removed == 1
    piece = log.read(0, 1000, 1)
    assert piece is not None
    assert piece.read()[61:] == batch[61:]


def test_a_crash_before_the_commit_leaves_the_log_as_it_was(log: PartitionLog) -> None:
    put(log, b"k", b"1")
    log.close()
    (log.directory / f"{0:020d}.log.cleaned").write_bytes(b"half of a")
    log = open_log(log.directory, CONFIG, clean=True)
    assert state(log) == {b"k": b"1"}
    assert list(log.directory.glob("*.cleaned")) == []


@pytest.mark.parametrize("done", range(5))
def test_a_crash_after_the_commit_is_carried_out_to_the_end(
    log: PartitionLog, tmp_path: Path, done: int
) -> None:
    for n in range(60):
        put(log, b"k", f"{n}".encode())
    log.roll()
    log.flush()
    crashed = tmp_path / "crashed"
    shutil.copytree(log.directory, crashed)
    replaced = [segment.base_offset for segment in log.segments[:-1]]
    compact(log)
    kept = log.segments[0]
    # What the directory looks like after the commit and some of the steps that follow it.
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(kept.path.with_suffix(suffix), crashed / f"{0:020d}{suffix}.cleaned")
    shutil.copy(log.directory / "cleaner-checkpoint", crashed)
    commit_swap(crashed, 0, replaced)
    for base in replaced[1:done]:
        (crashed / f"{base:020d}.log").unlink()
    if done == 4:
        index = crashed / f"{0:020d}.timeindex"
        index.with_name(f"{index.name}.cleaned").rename(index)
    again = open_log(crashed, CONFIG, recovery_point=0)
    assert again.damage == []
    assert read_all(again) == read_all(log)
    assert not (crashed / "compaction-swap").exists()


def test_producers_and_readers_go_on_meanwhile(log: PartitionLog) -> None:
    for n in range(600):
        put(log, f"{n % 5}".encode(), f"{n}".encode())
    log.roll()
    log.flush()
    results: list[CompactionResult] = []
    worker = Thread(target=lambda: results.append(log.compact(START_MS)))
    worker.start()
    written = 600
    while worker.is_alive():
        put(log, b"new", f"{written}".encode())
        written += 1
        assert read_all(log, start=595)[-1].offset == log.end_offset - 1
    worker.join()
    assert results[0].records_removed == 595
    assert log.end_offset == written
    assert list(log.verify()) == []
    assert len(read_all(log)) == written - 595


def test_what_is_deleted_meanwhile_is_not_brought_back(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        put(log, b"k", f"{n}".encode())
    log.roll()
    log.flush()
    # The last thing that is asked before a run begins.
    monkeypatch.setattr(compaction, "_worthwhile", lambda *_: log.delete_before(29) == 29)
    assert log.compact(START_MS) == CompactionResult()
    assert [record.value for record in read_all(log)] == [b"29"]
    assert list(log.directory.glob("*.cleaned")) == []


def test_an_offline_log_is_left_alone(log: PartitionLog) -> None:
    put(log, b"k", b"1")
    log.failure = StorageError("the disk is gone")
    assert log.compact(START_MS) == CompactionResult()
