"""What counts as flushed was synced, whoever appends meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event, Thread

import pytest

from nexus.log import LogConfig, quick_sync
from nexus.wire.errors import StorageError
from support.logs import append_values, open_log, read_all


def test_nothing_counts_as_flushed_before_it_is(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_values(log, b"a")
    assert (log.flushed_offset, log.end_offset) == (0, 1)
    assert log.flush() == 1
    assert log.flushed_offset == 1


def test_what_is_appended_during_a_flush_waits_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    append_values(log, b"a")
    syncing, go_on = Event(), Event()
    really_sync = os.fdatasync

    def slow_sync(fd: int) -> None:
        syncing.set()
        go_on.wait()
        really_sync(fd)

    log.leader_epochs.save()
    monkeypatch.setattr(os, "fdatasync", slow_sync)
    worker = Thread(target=log.flush)
    worker.start()
    syncing.wait()
    append_values(log, b"b")
    assert log.flushed_offset == 0
    go_on.set()
    worker.join()
    assert log.flushed_offset == 1
    assert log.flush() == 2


def test_segments_that_were_sealed_since_are_synced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    synced: list[int] = []
    really_sync = os.fdatasync

    def note_sync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        really_sync(fd)

    monkeypatch.setattr(os, "fdatasync", note_sync)
    for _ in range(6):
        append_values(log, b"v" * 50)
    log.flush()
    assert {segment.path.stat().st_ino for segment in log.segments} <= set(synced)
    synced.clear()
    assert log.flush() == 6
    assert synced == []


def test_a_quick_sync_does_not_overtake_a_flush_that_has_more_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the end would count as flushed while an earlier segment is not."""
    log = open_log(tmp_path, LogConfig(segment_bytes=100))
    append_values(log, b"a" * 50)
    log.flush()
    syncing, go_on = Event(), Event()
    really_sync = os.fdatasync

    def slow_sync(fd: int) -> None:
        syncing.set()
        go_on.wait()
        really_sync(fd)

    assert quick_sync.begin(log) is not None
    append_values(log, b"b" * 50)
    monkeypatch.setattr(os, "fdatasync", slow_sync)
    worker = Thread(target=log.flush)
    worker.start()
    syncing.wait()
    assert quick_sync.begin(log) is None
    go_on.set()
    worker.join()
    assert quick_sync.begin(log) is not None


def test_appending_rolling_and_flushing_side_by_side_keeps_all(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2000))
    done = Event()
    seen: list[int] = []

    def flush_again_and_again() -> None:
        while not done.is_set():
            seen.append(log.flush())
            log.checkpoint()

    worker = Thread(target=flush_again_and_again)
    worker.start()
    for n in range(2000):
        append_values(log, f"{n}".encode())
    done.set()
    worker.join()
    assert seen == sorted(seen)
    log.abandon()
    again = open_log(tmp_path, recovery_point=log.flushed_offset)
    assert [record.value for record in read_all(again)] == [f"{n}".encode() for n in range(2000)]
    assert again.damage == []


def test_a_closed_log_refuses_everything(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_values(log, b"a")
    log.close()
    with pytest.raises(StorageError, match="closed"):
        append_values(log, b"b")
    with pytest.raises(StorageError, match="closed"):
        log.flush()
    log.close()
    log.reopen()
    assert log.failure is not None
