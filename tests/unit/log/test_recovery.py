"""A log that was not closed comes back with all that was safe, and without a torn tail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nexus.log import LogConfig, PartitionLog
from nexus.log.segment import Segment
from support.logs import Producer, append, append_values, make_batch, open_log, read_all, values

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)
FIRST = f"{0:020d}"


def fill(log: PartitionLog, count: int) -> None:
    for n in range(log.end_offset, log.end_offset + count):
        append_values(log, f"value {n}".encode())


def contents(log: PartitionLog) -> list[bytes | None]:
    return [record.value for record in read_all(log)]


def expected(count: int) -> list[bytes]:
    return [f"value {n}".encode() for n in range(count)]


def bytes_read() -> int:
    """What this process has read so far, from files of any kind."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def test_a_log_comes_back_after_a_crash_as_it_was(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 60)
    log.abandon()
    log = open_log(tmp_path, SMALL, recovery_point=0)
    assert contents(log) == expected(60)
    assert log.flushed_offset == log.end_offset == 60
    assert log.damage == []
    fill(log, 5)
    assert contents(log) == expected(65)


def test_a_tail_that_is_cut_at_any_byte_is_cut_to_the_last_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    fill(log, 3)
    whole = log.segments[-1].size
    append_values(log, b"the last one")
    path = log.segments[-1].path
    log.abandon()
    data = path.read_bytes()
    for size in range(whole, len(data)):
        path.write_bytes(data[:size])
        log = open_log(tmp_path / "p", recovery_point=2)
        assert contents(log) == expected(3), size
        assert path.stat().st_size == whole
        append_values(log, b"after")
        assert log.end_offset == 4
        log.abandon()


@pytest.mark.parametrize("recovery_point", [0, 3, None])
def test_a_flipped_bit_in_the_last_batch_is_found_wherever_it_is(
    tmp_path: Path, recovery_point: int | None
) -> None:
    log = open_log(tmp_path / "p")
    fill(log, 3)
    whole = log.segments[-1].size
    append(log, make_batch(values(b"the last one")), leader_epoch=0)
    path = log.segments[-1].path
    log.abandon()
    data = path.read_bytes()
    # The leader epoch may rise: that it did is the only thing that no checksum can tell.
    epoch = range(whole + 12, whole + 16)
    for at in range(whole, len(data)):
        if at in epoch:
            continue
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        log = open_log(tmp_path / "p", recovery_point=recovery_point)
        assert contents(log) == expected(3), at
        assert len(log.damage) == 1
        log.abandon()


def test_rubbish_behind_the_tail_is_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 10)
    log.abandon()
    with log.segments[-1].path.open("ab") as file:
        file.write(os.urandom(5000))
    log = open_log(tmp_path, recovery_point=5)
    assert contents(log) == expected(10)


def test_a_hole_in_what_was_not_synced_ends_the_log(tmp_path: Path) -> None:
    """The file system may keep a later segment and lose the end of an earlier one."""
    log = open_log(tmp_path, SMALL)
    fill(log, 40)
    assert len(log.segments) > 3
    second = log.segments[1]
    log.abandon()
    with second.path.open("r+b") as file:
        file.truncate(second.size - 1)
    log = open_log(tmp_path, SMALL, recovery_point=0)
    assert contents(log) == expected(log.end_offset)
    assert second.base_offset < log.end_offset < 40
    assert len(list(tmp_path.glob("*.log"))) == 2


def test_damage_in_what_was_safe_is_reported_and_nothing_after_it_is_dropped(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 40)
    log.flush()
    second = log.segments[1]
    log.abandon()
    data = bytearray(second.path.read_bytes())
    data[70] ^= 1
    second.path.write_bytes(data)
    log = open_log(tmp_path, SMALL, recovery_point=None)
    assert [(one.file, one.position, one.offset) for one in log.damage] == [
        (second.path, 0, second.base_offset)
    ]
    assert log.end_offset == 40
    assert list(log.verify()) == log.damage


def test_only_what_lies_beyond_the_recovery_point_is_read(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = make_batch(values(b"x" * 10_000))
    for _ in range(1000):
        append(log, batch)
    point = log.checkpoint()
    append_values(log, b"the tail")
    log.abandon()
    before = bytes_read()
    log = open_log(tmp_path, recovery_point=point)
    assert bytes_read() - before < 50_000
    assert log.end_offset == point + 1


def test_a_start_after_a_clean_stop_reads_no_data(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = make_batch(values(*[b"x" * 1000] * 100), producer=Producer(1))
    append(log, batch)
    for _ in range(50):
        append(log, make_batch(values(*[b"x" * 1000] * 100)))
    log.close()
    before = bytes_read()
    log = open_log(tmp_path, clean=True)
    assert bytes_read() - before < 2000
    assert (log.end_offset, log.flushed_offset, len(log.producers)) == (5100, 5100, 1)
    assert len(read_all(log)) == 5100


def test_a_log_that_changed_after_its_clean_stop_is_checked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 10)
    log.close()
    with log.segments[-1].path.open("ab") as file:
        file.write(b"?")
    log = open_log(tmp_path, clean=True, recovery_point=10)
    assert contents(log) == expected(10)
    assert len(log.damage) == 1


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["lost", "cut", "odd", "emptied"])
def test_indexes_that_do_not_fit_are_made_anew(
    tmp_path: Path, clean: bool, suffix: str, damage: str
) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 40)
    log.close()
    for path in tmp_path.glob(f"*{suffix}"):
        content = path.read_bytes()
        if damage == "lost":
            path.unlink()
        else:
            path.write_bytes({"cut": content[:24], "odd": content[:-5], "emptied": b""}[damage])
    log = open_log(tmp_path, SMALL, clean=clean, recovery_point=40)
    assert contents(log) == expected(40)
    for offset in range(40):
        piece = log.read(offset, 1, 40)
        assert piece is not None
        assert f"value {offset}".encode() in piece.read()
    fill(log, 30)
    assert contents(log) == expected(70)


def test_an_index_that_lies_is_found_out_when_it_is_used(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 40)
    log.close()
    path = tmp_path / f"{FIRST}.index"
    content = bytearray(path.read_bytes())
    content[8] += 1
    path.write_bytes(content)
    log = open_log(tmp_path, SMALL, clean=True)
    assert contents(log) == expected(40)
    assert [f"value {n}".encode() in _one(log, n) for n in range(40)] == [True] * 40
    assert path.read_bytes() != content


def _one(log: PartitionLog, offset: int) -> bytes:
    piece = log.read(offset, 1, log.end_offset)
    return piece.read() if piece else b""


def test_what_was_flushed_but_is_gone_is_reported(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 10)
    log.flush()
    log.abandon()
    with log.segments[-1].path.open("r+b") as file:
        file.truncate(200)
    log = open_log(tmp_path, recovery_point=10)
    assert log.end_offset == 2
    assert any("safe up to offset 10" in one.what for one in log.damage)


def test_leftovers_of_an_interrupted_write_are_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 2)
    log.close()
    for name in ("x.tmp", f"{5:020d}.index", f"{FIRST}.log.cleaned"):
        (tmp_path / name).write_bytes(b"?")
    log = open_log(tmp_path, clean=True)
    assert contents(log) == expected(2)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{FIRST}.log",
        f"{FIRST}.index",
        f"{FIRST}.timeindex",
        f"{2:020d}.snapshot",
        "leader-epoch-checkpoint",
    }


def test_truncation_lowers_what_a_later_crash_may_trust(tmp_path: Path) -> None:
    """Else a recovery point from before the cut would hide what was torn after it."""
    log = open_log(tmp_path)
    fill(log, 10)
    point = log.checkpoint()
    log.truncate_to(4)
    assert contents(log) == expected(4)
    for _ in range(8):
        append_values(log, b"other")
    path, size = log.segments[-1].path, log.segments[-1].size
    log.abandon()
    data = bytearray(path.read_bytes())
    data[size * 5 // 12 + 65] ^= 1
    path.write_bytes(data)
    log = open_log(tmp_path, recovery_point=point)
    assert 4 <= log.end_offset < 10
    log.checkpoint()
    log.checkpointed()
    assert not (tmp_path / "unchecked-from").exists()


def test_a_segment_that_was_never_opened_finds_its_latest_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 40)
    log.close()
    log = open_log(tmp_path, SMALL, clean=True)
    assert isinstance(log.segments[0], Segment)
    assert log.segments[0].max_timestamp == log.segments[-1].max_timestamp > 0
