"""Old segments go, by age, by size or on demand, and the start of the log moves with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.log import LogConfig, PartitionLog
from nexus.wire.errors import OffsetOutOfRange
from support.logs import START_MS, Clock, append_values, open_log, read_all


def filled(directory: Path, config: LogConfig, count: int = 60) -> PartitionLog:
    """A log with a record a second."""
    log = open_log(directory, config)
    for n in range(count):
        append_values(log, f"{n:06d}".encode(), at_ms=START_MS + 1000 * n)
    log.flush()
    return log


def test_segments_that_are_too_old_go(tmp_path: Path) -> None:
    log = filled(tmp_path, LogConfig(segment_bytes=1000, retention_ms=30_000))
    assert log.retain(START_MS + 30_000) == 0
    second = log.segments[1]
    size = log.size_bytes
    freed = log.retain(START_MS + 30_000 + 1000 * second.base_offset)
    assert freed == size - log.size_bytes > 0
    assert log.start_offset == second.base_offset
    assert read_all(log)[0].offset == second.base_offset
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 100, log.end_offset)


def test_when_everything_is_too_old_an_empty_log_remains(tmp_path: Path) -> None:
    log = filled(tmp_path, LogConfig(segment_bytes=1000, retention_ms=1))
    log.retain(START_MS + 10**9)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (60, 60, 0)
    assert [path.name for path in tmp_path.glob("*.log")] == [f"{60:020d}.log"]
    log.close()
    log = open_log(tmp_path, clean=True)
    assert (log.start_offset, log.end_offset) == (60, 60)
    assert append_values(log, b"next").base_offset == 60


def test_segments_beyond_the_size_go(tmp_path: Path) -> None:
    log = filled(tmp_path, LogConfig(segment_bytes=1000, retention_ms=-1, retention_bytes=2000))
    log.retain(START_MS + 10**9)
    assert 2000 <= log.size_bytes < 3000
    assert log.end_offset == 60


def test_nothing_goes_that_is_not_on_disk(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=1000, retention_bytes=0))
    for _ in range(60):
        append_values(log, b"v")
    assert log.retain(START_MS + 10**9) == 0


def test_nothing_goes_where_deleting_is_off(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1000, retention_bytes=0, delete=False, compact=True)
    assert filled(tmp_path, config).retain(START_MS + 10**9) == 0


def test_records_without_a_time_are_as_old_as_their_file(tmp_path: Path) -> None:
    clock = Clock()
    log = open_log(tmp_path, LogConfig(retention_ms=1000), clock=clock)
    append_values(log, b"a", at_ms=-1)
    log.flush()
    written_ms = int(log.segments[0].path.stat().st_mtime * 1000)
    assert log.retain(written_ms + 900) == 0
    assert log.retain(written_ms + 1100) > 0


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_deleted_on_demand_stays_deleted(tmp_path: Path, clean: bool) -> None:
    config = LogConfig(segment_bytes=1000)
    log = filled(tmp_path, config)
    assert log.delete_before(33) == 33
    assert log.delete_before(20) == 33
    assert read_all(log)[0].offset == 33
    assert log.segments[0].base_offset <= 33 < log.segments[1].base_offset
    log.close() if clean else log.abandon()
    log = open_log(tmp_path, config, clean=clean, recovery_point=60)
    assert log.start_offset == 33


def test_a_segment_that_is_deleted_before_it_was_synced_is_not_missed(tmp_path: Path) -> None:
    log = filled(tmp_path, LogConfig(), 3)
    log.roll()
    log.delete_before(3)
    append_values(log, b"next")
    assert log.flush() == 4


def test_deleting_beyond_what_is_on_disk_is_refused(tmp_path: Path) -> None:
    log = filled(tmp_path, LogConfig(), 3)
    append_values(log, b"not flushed")
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(4)
    assert log.delete_before(3) == 3
