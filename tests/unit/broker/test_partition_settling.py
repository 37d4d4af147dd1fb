"""Batches of a producer whose first came just too early for a new leader, and its next in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nexus.broker.partition import SETTLING_SECONDS, NotLeader, Partition
from nexus.cluster.leading import Rules
from nexus.cluster.partition_state import PartitionState
from nexus.log import LogConfig, PartitionLog
from nexus.wire.batch import check_from_client
from nexus.wire.errors import OutOfOrderSequence
from nexus.wire.records import Record, encode_batch

STATE = PartitionState((1, 2), 1, 5, (1, 2), version=1)
PRODUCER = 7


def send(partition: Partition, sequence: int) -> int:
    record = Record(0, 1_000, None, b"v", ())
    made = encode_batch([record], producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence)
    batch = memoryview(made)
    return partition.append(batch, check_from_client(batch)).base_offset


def led(directory: Path, story: Callable[[Partition, float], None]) -> None:
    """Tells a story of a partition that this broker begins to lead now."""

    async def tell() -> None:
        log = PartitionLog.open(
            directory / "p", LogConfig(), recovery_point=0, clean=False, now_ms=lambda: 1_000
        )
        partition = Partition("t", 0, log, lambda _: None, lambda _: None, is_shared=True)
        now = asyncio.get_running_loop().time()
        assert partition.lead(STATE, 1, Rules(), now)
        story(partition, now)

    asyncio.run(tell())


def again(partition: Partition, epoch: int, now: float) -> None:
    assert partition.lead(replace(STATE, epoch=epoch), 1, Rules(), now)


def test_a_batch_whose_predecessor_was_sent_away_is_sent_after_it(tmp_path: Path) -> None:
    def story(partition: Partition, now: float) -> None:
        assert send(partition, 0) == 0
        again(partition, 6, now)
        with pytest.raises(NotLeader):
            send(partition, 2)
        assert [send(partition, 1), send(partition, 2)] == [1, 2]
        with pytest.raises(OutOfOrderSequence):  # heard in this epoch: the gap is its own
            send(partition, 9)

    led(tmp_path, story)


def test_so_is_the_second_batch_of_a_producer_that_nobody_knows_yet(tmp_path: Path) -> None:
    def story(partition: Partition, now: float) -> None:
        with pytest.raises(NotLeader):
            send(partition, 1)
        assert [send(partition, 0), send(partition, 1)] == [0, 1]

    led(tmp_path, story)


def test_what_was_appended_before_is_still_answered_with_its_offset(tmp_path: Path) -> None:
    def story(partition: Partition, now: float) -> None:
        assert [send(partition, 0), send(partition, 1)] == [0, 1]
        again(partition, 6, now)
        assert [send(partition, 0), send(partition, 1)] == [0, 1]

    led(tmp_path, story)


def test_a_gap_that_stays_is_an_error_in_the_end(tmp_path: Path) -> None:
    def story(partition: Partition, now: float) -> None:
        assert send(partition, 0) == 0
        again(partition, 6, now - SETTLING_SECONDS)
        with pytest.raises(OutOfOrderSequence):
            send(partition, 2)

    led(tmp_path, story)


def test_one_that_is_forgotten_may_go_on_later(tmp_path: Path) -> None:
    def story(partition: Partition, now: float) -> None:
        again(partition, 6, now - SETTLING_SECONDS)
        assert send(partition, 5) == 0

    led(tmp_path, story)
