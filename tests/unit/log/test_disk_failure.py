"""A disk that fails takes a log offline without a lie; it comes back with what is on disk.

The disk is a small tmpfs where the tests may mount one, and else a limit on the size of files.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nexus.log import LogConfig, LogStore, PartitionLog
from nexus.log.files import OpenFile
from nexus.wire.errors import StorageError
from support.logs import Clock, append_values, open_log, read_all
from support.needs import missing

CONFIG = LogConfig(segment_bytes=200_000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        missing("mounting a tmpfs needs root")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def fill_until_it_fails(log: PartitionLog, content: bytes = b"content" * 400) -> list[bytes]:
    """Append until the disk refuses; returns what was accepted."""
    accepted: list[bytes] = []
    for _ in range(10_000):
        try:
            append_values(log, content)
        except StorageError:
            return accepted
        accepted.append(content)
    raise AssertionError("the disk never filled")


def contents(log: PartitionLog) -> list[bytes | None]:
    return [record.value for record in read_all(log)]


def test_a_full_disk_takes_the_log_offline_and_it_comes_back_when_there_is_room(
    small_disk: Path,
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(300_000))
    log = open_log(small_disk / "p", CONFIG)
    accepted = fill_until_it_fails(log)
    assert "No space left" in str(log.failure)
    assert contents(log) == accepted
    with pytest.raises(StorageError):
        append_values(log, b"refused")
    with pytest.raises(StorageError):
        log.flush()
    ballast.unlink()
    failed = log.segments[-1].path
    log.reopen()
    assert log.failure is None
    assert contents(log) == accepted
    assert log.segments[-1].path != failed
    append_values(log, b"after")
    assert log.flush() == len(accepted) + 1
    log.close()
    again = open_log(small_disk / "p", CONFIG, clean=True)
    assert contents(again) == [*accepted, b"after"]


def test_a_log_stays_offline_as_long_as_the_disk_is_full(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(100_000))
    log = open_log(small_disk / "p", CONFIG)
    accepted = fill_until_it_fails(log)
    rest = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    (small_disk / "rest").write_bytes(bytes(rest))
    with pytest.raises(StorageError):
        log.reopen()
    assert log.failure is not None
    (small_disk / "ballast").unlink()
    log.reopen()
    assert contents(log) == accepted


def test_a_full_disk_never_ends_the_process_through_an_index(small_disk: Path) -> None:
    """A store into a mapped hole of a full disk would: space is allocated before."""
    config = LogConfig(index_interval_bytes=1)
    log = open_log(small_disk / "p", config)
    rest = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    (small_disk / "ballast").write_bytes(bytes(rest - 65536))
    accepted = fill_until_it_fails(log, b"v")
    assert 0 < len(accepted) < 5000
    assert contents(log) == accepted


def test_a_file_size_limit_is_a_failure_like_any_other(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", LogConfig())
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        accepted = fill_until_it_fails(log)
        assert "File too large" in str(log.failure)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    # The write was cut short: what is there of the last batch must go.
    assert log.segments[-1].path.stat().st_size > log.segments[-1].size
    log.reopen()
    assert contents(log) == accepted
    assert list(log.verify()) == []


def test_after_a_failed_sync_only_what_was_synced_before_is_kept(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    append_values(log, b"safe")
    log.flush()
    append_values(log, b"not safe")
    unsyncable = _break_sync(log)
    with pytest.raises(StorageError, match="syncing failed"):
        log.flush()
    assert log.flushed_offset == 1
    with pytest.raises(StorageError):
        append_values(log, b"refused")
    log.reopen()
    assert unsyncable is not log.segments[-1].file
    assert contents(log) == [b"safe"]
    assert (log.end_offset, log.flushed_offset) == (1, 1)
    append_values(log, b"again")
    assert log.flush() == 2


def _break_sync(log: PartitionLog) -> OpenFile:
    """Put a pipe, which cannot be synced, under the descriptor of the log's file."""
    file = log.segments[-1].file
    reader, writer = os.pipe()
    os.dup2(writer, file.fd)
    os.close(reader)
    os.close(writer)
    return file


def test_a_log_that_cannot_be_opened_can_be_tried_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    append_values(log, b"a")
    log.close()
    (tmp_path / "p").rename(tmp_path / "away")
    (tmp_path / "p").write_bytes(b"a file where the directory should be")
    with pytest.raises(StorageError) as failed:
        open_log(tmp_path / "p")
    offline = PartitionLog.offline(tmp_path / "p", LogConfig(), failed.value, lambda: 0)
    with pytest.raises(StorageError):
        offline.reopen()
    (tmp_path / "p").unlink()
    (tmp_path / "away").rename(tmp_path / "p")
    offline.reopen()
    assert contents(offline) == [b"a"]


def test_a_topic_that_does_not_fit_the_disk_leaves_nothing_behind(small_disk: Path) -> None:
    store = LogStore.open(small_disk, now_ms=Clock())
    rest = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    (small_disk / "ballast").write_bytes(bytes(rest - 40_000))
    with pytest.raises(StorageError, match="cannot be created"):
        store.create_topic("t", 20, {}, lambda _: CONFIG)
    assert store.topics == {}
    (small_disk / "ballast").unlink()
    store.create_topic("t", 20, {}, lambda _: CONFIG)
    store.close()


def test_old_segments_can_go_while_the_disk_is_full(small_disk: Path) -> None:
    config = LogConfig(segment_bytes=100_000, retention_bytes=200_000)
    log = open_log(small_disk / "p", config)
    append_values(log, b"first")
    while log.failure is None:
        with suppress(StorageError):
            append_values(log, b"content" * 400)
            log.flush()
    assert log.retain(Clock().now_ms) > 0
    log.reopen()
    append_values(log, b"there is room again")
    assert log.flush() == log.end_offset
