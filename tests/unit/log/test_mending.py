"""A damaged batch is replaced by a sound copy of it, exactly in its place, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.log import FileSlice, LogConfig, PartitionLog
from nexus.log.files import OpenFile
from nexus.log.mending import (
    DAMAGED,
    CannotMend,
    check_batches,
    check_slice,
    damage_near,
    mend,
    sound_behind,
    wanted_from,
)
from support.logs import START_MS, append, append_values, make_batch, open_log, read_all, values

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)
KEYED = LogConfig(segment_bytes=1000, compact=True, delete=False, min_cleanable_dirty_ratio=0.01)
COUNT = 40


def filled(directory: Path) -> PartitionLog:
    log = open_log(directory, SMALL)
    for n in range(COUNT):
        append_values(log, b"value %03d" % n)
    log.flush()
    return log


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        [byte] = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x55]))


def copies(log: PartitionLog, offset: int) -> memoryview:
    piece = log.read(offset, 1 << 20, log.end_offset)
    assert piece is not None
    return memoryview(piece.read())


def test_a_copy_takes_the_place_of_a_batch_wherever_it_is_damaged(tmp_path: Path) -> None:
    log, sound = filled(tmp_path / "damaged"), filled(tmp_path / "sound")
    path = log.segments[1].path
    whole = path.read_bytes()
    size = len(whole) // (log.segments[2].base_offset - log.segments[1].base_offset)
    for at in range(size):
        flip(path, 2 * size + at)
        bad = damage_near(log, log.segments[1].base_offset)
        assert bad is not None
        mend(log, bad, copies(sound, bad.offset))
        assert path.read_bytes() == whole, at
        assert damage_near(log, bad.offset) is None
    kept = list((tmp_path / "damaged").glob(f"*{DAMAGED}*"))
    assert [len(one.read_bytes()) % size for one in kept] == [0]
    assert [record.value for record in read_all(log)] == [b"value %03d" % n for n in range(COUNT)]


def test_an_epoch_that_fell_is_mended_as_well_as_one_that_rose(tmp_path: Path) -> None:
    log, sound = (open_log(tmp_path / name, SMALL) for name in ("damaged", "sound"))
    for n in range(10):
        for one in (log, sound):
            append(one, make_batch(values(b"value %03d" % n)), leader_epoch=5)
    path = log.segments[0].path
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(3 * (len(whole) // 10) + 15)
        file.write(b"\x04")
    bad = damage_near(log, 0)
    assert bad is not None
    mend(log, bad, copies(sound, bad.offset))
    assert path.read_bytes() == whole


def test_a_copy_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path / "damaged")
    other = open_log(tmp_path / "other", SMALL)
    for n in range(COUNT):
        append_values(other, b"another and longer value %03d" % n)
    path = log.segments[-2].path
    flip(path, path.stat().st_size - 1)
    before = path.read_bytes()
    bad = damage_near(log, log.segments[-2].base_offset)
    assert bad is not None
    for offered in (copies(other, bad.offset), copies(log, 0), memoryview(b"")):
        with pytest.raises(CannotMend):
            mend(log, bad, offered)
    assert path.read_bytes() == before


def test_what_is_read_is_checked_from_the_offset_that_was_asked_for(tmp_path: Path) -> None:
    log = filled(tmp_path)
    data = bytearray(copies(log, 0))
    path = tmp_path / "copy"
    assert check_batches(memoryview(data), 0, 0) is None
    size = len(data) // log.segments[1].base_offset
    for at in range(3 * size, 4 * size):
        data[at] ^= 0x55
        found = check_batches(memoryview(data), 0, 0)
        # Of an epoch that is too high the next batch tells.
        is_epoch = 12 <= at - 3 * size < 16
        assert found == ((4 * size, 4) if is_epoch else (3 * size, 3))
        path.write_bytes(data)
        piece = FileSlice(OpenFile(path), 0, len(data))
        assert check_slice(piece, 0, 0) == found
        data[at] ^= 0x55


def test_damage_in_what_was_safe_leaves_all_that_follows_in_the_last_segment(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    for n in range(COUNT):
        append_values(log, b"value %03d" % n)
    log.flush()
    path = log.segments[-1].path
    size = path.stat().st_size // COUNT
    log.abandon()
    for at in (size * 5 + 8, size * 5 + 70):  # the length of a batch, and its records
        flip(path, at)
        log = open_log(tmp_path, recovery_point=30)
        # Below the point nothing but lengths and offsets is looked at.
        assert log.end_offset == COUNT
        assert log.kept_all
        assert [hole.offset for hole in log.holes] in ([5], [])
        bad = damage_near(log, 5)
        assert bad is not None
        assert (bad.position, bad.offset) == (size * 5, 5)
        log.abandon()
        flip(path, at)


def test_a_hole_in_what_was_not_synced_may_be_damage_and_is_said_to_be_a_loss(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    for n in range(COUNT):
        append_values(log, b"value %03d" % n)
    log.flush()
    path = log.segments[-1].path
    size = path.stat().st_size // COUNT
    log.abandon()
    flip(path, size * 35 + 70)
    log = open_log(tmp_path, recovery_point=30)
    assert log.end_offset == 35
    assert not log.kept_all
    log.abandon()
    path.write_bytes(path.read_bytes()[: size * 33 + 20])
    torn = open_log(tmp_path, recovery_point=30)
    assert torn.end_offset == 33
    assert torn.kept_all, "a torn tail was never acknowledged"


def compacted(directory: Path, *, cleans: bool) -> PartitionLog:
    """Six keys that change in turn, each in batches of one size; of a pair the second stays."""
    log = open_log(directory, KEYED)
    for n in range(COUNT):
        append(log, make_batch([(b"key %d" % (n // 2 % 6), b"value %03d" % n)]))
    log.roll()
    log.flush()
    if cleans:
        log.compact(START_MS)
    return log


def test_where_the_log_was_compacted_only_a_copy_of_the_same_batch_is_taken(
    tmp_path: Path,
) -> None:
    log = compacted(tmp_path / "damaged", cleans=True)
    others = [compacted(tmp_path / f"{cleans}", cleans=cleans) for cleans in (False, True)]
    before = read_all(log)
    assert len(before) == 6
    assert before[0].offset > 0, "a batch that went lies before the first that stayed"
    path = log.segments[0].path
    whole = path.read_bytes()
    size = len(whole) // len(before)
    for other in others:
        for at in range(2 * size):
            flip(path, at)
            bad = damage_near(log, log.segments[0].base_offset)
            if bad is not None and bad.position == at // size * size:
                # Whether or not it can be told which it was: never another one in its place.
                try:
                    mend(log, bad, copies(other, wanted_from(log, bad)))
                except CannotMend:
                    flip(path, at)
            else:
                flip(path, at)
            assert path.read_bytes() == whole, at
    flip(path, size - 1)
    bad = damage_near(log, log.segments[0].base_offset)
    assert bad is not None
    mend(log, bad, copies(others[0], wanted_from(log, bad)))
    assert read_all(log) == before


def test_a_batch_that_compaction_rewrote_is_not_taken_from_one_that_it_left_alone(
    tmp_path: Path,
) -> None:
    log, other = (open_log(tmp_path / name, KEYED) for name in ("damaged", "other"))
    for one in (log, other):
        append(one, make_batch([(b"a", b"1"), (b"b", b"1")]))
        append(one, make_batch([(b"a", b"2")]))
        one.roll()
        one.flush()
    log.compact(START_MS)
    flip(log.segments[0].path, 65)
    bad = damage_near(log, 0)
    assert bad is not None
    with pytest.raises(CannotMend, match="another batch"):
        mend(log, bad, copies(other, wanted_from(log, bad)))


@pytest.mark.parametrize("at", [8, 70], ids=["length", "records"])
def test_the_next_sound_batch_is_found_behind_damage(tmp_path: Path, at: int) -> None:
    log = filled(tmp_path)
    second, third = log.segments[1:3]
    size = second.size // (third.base_offset - second.base_offset)
    for number in (2, third.base_offset - second.base_offset - 1):
        flip(second.path, number * size + at)
    behind = sound_behind(log, second.base_offset + 2)
    assert behind is not None
    assert (behind.position, behind.file.path) == (3 * size, second.path)
    behind = sound_behind(log, third.base_offset - 1)
    assert behind is not None
    assert (behind.position, behind.file.path) == (0, third.path)
    assert sound_behind(log, COUNT - 1) is None
