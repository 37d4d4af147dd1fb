"""An idempotent producer's batch is in the log once, whatever it sends again, across restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.log import Append, LogConfig, PartitionLog
from nexus.log.producers import (
    PRODUCERS_MAX,
    Producers,
    ProducerState,
    SeenBatch,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
)
from nexus.wire.batch import read_header
from nexus.wire.errors import InvalidProducerEpoch, OutOfOrderSequence
from support.logs import Clock, Producer, append, make_batch, open_log, read_all, values

LAST_SEQUENCE = 2**31 - 1


def send(log: PartitionLog, sequence: int, *, epoch: int = 0, count: int = 1) -> Append:
    batch = make_batch(values(*[b"v"] * count), producer=Producer(7, epoch, sequence))
    return append(log, batch)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path / "p")


def test_a_duplicate_gets_the_offset_of_the_first(log: PartitionLog) -> None:
    send(log, 0, count=3)
    first = send(log, 3, count=2)
    again = send(log, 3, count=2)
    assert (again.base_offset, again.last_offset, again.duplicate) == (3, 4, True)
    assert not first.duplicate
    assert log.end_offset == 5


def test_five_batches_are_remembered_and_no_more(log: PartitionLog) -> None:
    for sequence in range(6):
        send(log, sequence)
    assert [send(log, sequence).base_offset for sequence in range(1, 6)] == [1, 2, 3, 4, 5]
    with pytest.raises(OutOfOrderSequence):
        send(log, 0)


def test_a_skipped_sequence_is_refused(log: PartitionLog) -> None:
    send(log, 0)
    with pytest.raises(OutOfOrderSequence):
        send(log, 2)
    assert send(log, 1).base_offset == 1


def test_a_batch_that_overlaps_another_is_no_duplicate(log: PartitionLog) -> None:
    send(log, 0, count=3)
    with pytest.raises(OutOfOrderSequence):
        send(log, 0, count=2)


def test_sequences_wrap_to_zero(log: PartitionLog) -> None:
    send(log, LAST_SEQUENCE - 1, count=2)
    assert not send(log, 0).duplicate
    assert send(log, LAST_SEQUENCE - 1, count=2).duplicate


def test_a_batch_may_wrap_inside(log: PartitionLog) -> None:
    send(log, LAST_SEQUENCE, count=3)
    assert not send(log, 2).duplicate
    assert send(log, LAST_SEQUENCE, count=3).base_offset == 0


def test_an_unknown_producer_may_begin_anywhere(log: PartitionLog) -> None:
    assert not send(log, 1234).duplicate
    assert not send(log, 1235).duplicate


def test_a_new_epoch_begins_at_zero_and_ends_the_old(log: PartitionLog) -> None:
    send(log, 0)
    with pytest.raises(OutOfOrderSequence):
        send(log, 1, epoch=1)
    assert not send(log, 0, epoch=1).duplicate
    with pytest.raises(InvalidProducerEpoch):
        send(log, 1)


@pytest.mark.parametrize("stop", ["clean", "crash", "crash without snapshot"])
def test_what_is_known_survives_a_restart(tmp_path: Path, stop: str) -> None:
    log = open_log(tmp_path / "p")
    for sequence in range(3):
        send(log, sequence)
    if stop == "crash":
        log.checkpoint()
    send(log, 3)
    log.close() if stop == "clean" else log.abandon()
    log = open_log(tmp_path / "p", clean=stop == "clean", recovery_point=0)
    assert [send(log, sequence).duplicate for sequence in range(4)] == [True] * 4
    assert not send(log, 4).duplicate
    assert len(read_all(log)) == 5


def test_a_batch_that_a_crash_took_is_no_duplicate_when_it_comes_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    send(log, 0)
    log.checkpoint()
    send(log, 1)
    log.abandon()
    with (tmp_path / "p" / f"{0:020d}.log").open("r+b") as file:
        file.truncate(100)
    log = open_log(tmp_path / "p", recovery_point=1)
    assert send(log, 0).duplicate
    again = send(log, 1)
    assert (again.base_offset, again.duplicate) == (1, False)


def test_a_damaged_snapshot_is_made_up_for_from_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    for sequence in range(3):
        send(log, sequence)
    log.close()
    [snapshot] = (tmp_path / "p").glob("*.snapshot")
    content = bytearray(snapshot.read_bytes())
    content[-1] ^= 1
    snapshot.write_bytes(content)
    log = open_log(tmp_path / "p", clean=True, recovery_point=3)
    assert send(log, 2).duplicate


def test_an_idle_producer_is_forgotten(tmp_path: Path) -> None:
    clock = Clock()
    log = open_log(tmp_path / "p", LogConfig(producer_expiry_ms=1000), clock=clock)
    send(log, 0)
    log.checkpoint()
    assert len(log.producers) == 1
    clock.now_ms += 1001
    log.checkpoint()
    assert len(log.producers) == 0
    assert not send(log, 99).duplicate


def test_made_up_producers_do_not_fill_the_memory() -> None:
    producers = Producers()
    batch = make_batch(values(b"v"), producer=Producer(7))
    header = read_header(batch)
    for number in range(PRODUCERS_MAX + 10):
        producers.update(header._replace(producer_id=number), number, number)
    assert len(producers) <= PRODUCERS_MAX
    assert producers.get(0) is None
    assert producers.get(PRODUCERS_MAX + 9) is not None


def test_a_snapshot_comes_back_as_it_was() -> None:
    seen = (SeenBatch(0, 1, 10, 11), SeenBatch(2, 2, 12, 12))
    snapshot = Snapshot(13, {5: ProducerState(2, 3, seen, 99)}, 10, 50, 123)
    encoded = encode_snapshot(snapshot)
    assert decode_snapshot(encoded) == snapshot
    for at in range(len(encoded)):
        damaged = bytearray(encoded)
        damaged[at] ^= 0x10
        assert decode_snapshot(bytes(damaged)) != snapshot
        assert decode_snapshot(encoded[:at]) is None
