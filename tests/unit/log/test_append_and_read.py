"""What is appended is read again: whole batches, in order, up to a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.log import LogConfig, PartitionLog
from nexus.wire.batch import read_header
from nexus.wire.errors import InvalidTimestamp, MessageTooLarge, OffsetOutOfRange
from support.logs import (
    START_MS,
    Clock,
    append,
    append_values,
    make_batch,
    open_log,
    read_all,
    records_of,
    values,
)

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def numbered(count: int) -> list[bytes]:
    return [f"value {n:06d}".encode() for n in range(count)]


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path / "p")


def test_offsets_follow_one_another_and_are_stamped_in_place(log: PartitionLog) -> None:
    batch = make_batch(values(b"a", b"b"))
    assert append(log, make_batch(values(b"x"))).base_offset == 0
    done = append(log, batch, leader_epoch=3)
    assert (done.base_offset, done.last_offset, log.end_offset) == (1, 2, 3)
    assert read_header(batch).base_offset == 1
    assert read_header(batch).leader_epoch == 3


def test_a_read_inside_a_batch_returns_the_whole_batch(log: PartitionLog) -> None:
    append_values(log, b"a", b"b", b"c")
    piece = log.read(1, 1000, log.end_offset)
    assert piece is not None
    assert [record.value for record in records_of(piece.read())] == [b"a", b"b", b"c"]


def test_nothing_at_or_beyond_the_limit_is_read(log: PartitionLog) -> None:
    for content in numbered(5):
        append_values(log, content)
    assert [record.offset for record in read_all(log, upto=3)] == [0, 1, 2]
    assert log.read(3, 1000, 3) is None
    assert log.read(5, 1000, log.end_offset) is None


def test_one_batch_is_read_even_if_it_is_larger_than_asked_for(log: PartitionLog) -> None:
    append_values(log, b"x" * 5000)
    append_values(log, b"y")
    piece = log.read(0, 10, log.end_offset)
    assert piece is not None
    assert [record.value for record in records_of(piece.read())] == [b"x" * 5000]
    assert log.read(0, 10, log.end_offset, at_least_one=False) is None


@pytest.mark.parametrize("reopened", [False, True])
def test_pieces_end_with_a_batch_and_stay_below_the_size_asked_for(
    tmp_path: Path, reopened: bool
) -> None:
    log = open_log(tmp_path / "p", LogConfig(index_interval_bytes=300))
    for content in numbered(600):
        append_values(log, content)
    if reopened:
        log.close()
        log = open_log(tmp_path / "p", LogConfig(index_interval_bytes=300), clean=True)
    for offset in range(0, 600, 7):
        piece = log.read(offset, 1000, log.end_offset)
        assert piece is not None
        found = records_of(piece.read())
        assert found[0].offset == offset
        assert 600 < piece.size <= 1000 or found[-1].offset == 599


def test_offsets_outside_of_the_log_are_refused(log: PartitionLog) -> None:
    append_values(log, b"a")
    for outside in (-1, 2):
        with pytest.raises(OffsetOutOfRange):
            log.read(outside, 100, log.end_offset)


def test_segments_roll_by_size_and_all_of_them_are_read(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", SMALL)
    for content in numbered(100):
        append_values(log, content)
    assert len(list((tmp_path / "p").glob("*.log"))) > 5
    assert all(path.stat().st_size <= 1000 for path in (tmp_path / "p").glob("*.log"))
    assert [record.value for record in read_all(log)] == numbered(100)


def test_segments_roll_by_age_whatever_the_records_say_of_their_time(tmp_path: Path) -> None:
    clock = Clock()
    log = open_log(tmp_path / "p", LogConfig(segment_ms=1000), clock=clock)
    for at_ms in (START_MS, 5, START_MS, 5):
        append_values(log, b"a", at_ms=at_ms)
    assert len(log.segments) == 1
    clock.now_ms += 1000
    append_values(log, b"b")
    assert [segment.base_offset for segment in log.segments] == [0, 4]


def test_the_age_of_a_segment_survives_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    log = open_log(tmp_path / "p", LogConfig(segment_ms=1000), clock=clock)
    append_values(log, b"a")
    clock.now_ms += 600
    log.close()
    log = open_log(tmp_path / "p", LogConfig(segment_ms=1000), clean=True, clock=clock)
    clock.now_ms += 600
    append_values(log, b"b")
    assert len(log.segments) == 2


def test_a_batch_above_the_limit_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", LogConfig(max_message_bytes=200))
    with pytest.raises(MessageTooLarge):
        append_values(log, b"x" * 200)
    assert log.end_offset == 0


def test_a_time_far_in_the_future_is_refused(log: PartitionLog) -> None:
    with pytest.raises(InvalidTimestamp):
        append_values(log, b"x", at_ms=START_MS + 3_600_001)


def test_the_log_can_give_records_its_own_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", LogConfig(log_append_time=True))
    done = append_values(log, b"a", b"b", at_ms=START_MS + 10**12)
    assert done.append_time_ms == START_MS
    assert {record.timestamp for record in read_all(log)} == {START_MS}
    assert list(log.verify()) == []


def test_a_slice_can_be_read_after_its_segment_was_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", SMALL)
    for content in numbered(50):
        append_values(log, content)
    log.flush()
    piece = log.read(0, 100, log.end_offset)
    assert piece is not None
    log.delete_before(40)
    assert not (tmp_path / "p" / f"{0:020d}.log").exists()
    assert records_of(piece.read())[0].value == numbered(1)[0]
    assert piece.resident()


def test_replicated_batches_keep_their_offsets_epochs_and_gaps(tmp_path: Path) -> None:
    leader = open_log(tmp_path / "leader")
    for epoch, content in enumerate(numbered(4)):
        append(leader, make_batch(values(content)), leader_epoch=epoch)
    follower = open_log(tmp_path / "follower")
    for offset in (0, 1, 3):
        piece = leader.read(offset, 1, 4)
        assert piece is not None
        follower.append_replicated(memoryview(piece.read()))
    assert [record.offset for record in read_all(follower)] == [0, 1, 3]
    assert [record.offset for record in read_all(follower, start=2)] == [3]
    assert follower.leader_epochs.entries == ((0, 0), (1, 1), (3, 3))
    follower.flush()
    follower.abandon()
    again = open_log(tmp_path / "follower", recovery_point=0)
    assert [record.offset for record in read_all(again)] == [0, 1, 3]
    assert again.damage == []
    piece = leader.read(0, 1, 4)
    assert piece is not None
    with pytest.raises(OffsetOutOfRange):
        again.append_replicated(memoryview(piece.read()))
