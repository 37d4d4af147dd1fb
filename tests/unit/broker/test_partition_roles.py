"""A partition that leads, follows, or does neither, and what it tells those who wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nexus.broker.partition import (
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    Partition,
)
from nexus.cluster.following import Following
from nexus.cluster.leading import Rules
from nexus.cluster.partition_state import PartitionState
from nexus.log import LogConfig, PartitionLog
from nexus.wire.batch import check_from_client
from nexus.wire.errors import ProtocolError
from nexus.wire.records import Record, encode_batch

ALL = PartitionState((1, 2, 3), 1, 5, (1, 2, 3), version=1)
ALONE = PartitionState((1,), 1, 5, (1,), version=1)
RULES = Rules(min_in_sync=2)


class Waiting:
    """What became of an acknowledgement."""

    def __init__(self) -> None:
        self.outcomes: list[ProtocolError | None] = []

    def __call__(self, error: ProtocolError | None) -> None:
        self.outcomes.append(error)


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    log = PartitionLog.open(
        tmp_path / "p", LogConfig(), recovery_point=0, clean=False, now_ms=lambda: 1_000
    )

    async def make() -> Partition:
        return Partition("t", 0, log, lambda _: None, lambda _: None, is_shared=True)

    return asyncio.run(make())


def append(partition: Partition) -> int:
    batch = memoryview(encode_batch([Record(0, 1_000, None, b"v", ())]))
    return partition.append(batch, check_from_client(batch)).last_offset + 1


def flush(partition: Partition) -> None:
    partition.log.flush()
    partition.on_flushed()


def test_nobody_writes_to_a_partition_that_is_not_led_here(partition: Partition) -> None:
    with pytest.raises(NotLeader):
        append(partition)
    partition.follow(Following(2, 4))
    with pytest.raises(NotLeader):
        partition.check_readable(4)


def test_a_record_is_safe_once_every_replica_in_sync_has_it(partition: Partition) -> None:
    assert partition.lead(ALL, 1, RULES, 0.0)
    end, told = append(partition), Waiting()
    assert partition.when_safe(end, told)
    flush(partition)
    partition.fetched(2, 5, end, 1.0)
    assert told.outcomes == []
    partition.fetched(3, 4, end, 1.0)  # of another epoch: says nothing
    assert told.outcomes == []
    partition.fetched(3, 5, end, 1.0)
    assert told.outcomes == [None]
    assert partition.high_watermark == end


def test_what_followers_have_is_not_safe_before_it_is_flushed_here(partition: Partition) -> None:
    assert partition.lead(ALL, 1, RULES, 0.0)
    end = append(partition)
    for node in (2, 3):
        partition.fetched(node, 5, end, 1.0)
    assert partition.high_watermark == 0
    flush(partition)
    assert partition.high_watermark == end


def test_who_waits_for_a_leader_that_is_deposed_is_told_so(partition: Partition) -> None:
    assert partition.lead(ALL, 1, RULES, 0.0)
    told = Waiting()
    assert partition.when_safe(append(partition), told)
    partition.follow(Following(2, 6))
    assert [type(error) for error in told.outcomes] == [NotLeader]


def test_too_few_in_sync_is_one_error_before_the_append_and_another_after(
    partition: Partition,
) -> None:
    assert partition.lead(ALL, 1, RULES, 0.0)
    told = Waiting()
    assert partition.when_safe(append(partition), told)
    partition.agreed(PartitionState((1, 2, 3), 1, 5, (1,), version=2))
    flush(partition)
    assert [type(error) for error in told.outcomes] == [NotEnoughReplicasAfterAppend]
    with pytest.raises(NotEnoughReplicas):
        partition.check_writable(by_all=True)
    partition.check_writable(by_all=False)


def test_asynchronous_replication_acknowledges_what_is_safe_here_alone(
    partition: Partition,
) -> None:
    assert partition.lead(ALL, 1, Rules(mode="async"), 0.0)
    end, told = append(partition), Waiting()
    assert partition.when_safe(end, told)
    flush(partition)
    assert told.outcomes == [None]
    assert partition.high_watermark == 0


def test_an_epoch_is_led_once(partition: Partition) -> None:
    assert partition.lead(ALONE, 1, Rules(), 0.0)
    partition.step_down(5)
    assert not partition.lead(ALONE, 1, Rules(), 1.0)
    assert not partition.is_leader


def test_a_new_leader_shows_no_watermark_until_it_knows_it(partition: Partition) -> None:
    assert partition.lead(ALONE, 1, Rules(), 0.0)
    end = append(partition)
    flush(partition)
    partition.follow(Following(2, 6))
    later = PartitionState((1, 2), 1, 7, (1, 2), version=3)
    partition.high_watermark = 0  # as after a restart
    assert partition.lead(later, 1, Rules(), 2.0)
    settled = [partition.is_settled]
    partition.fetched(2, 7, end, 3.0)
    settled.append(partition.is_settled)
    assert settled == [False, True]
    assert partition.high_watermark == end
