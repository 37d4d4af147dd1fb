"""A write with acks=all that is not safe in time is answered in time, and stays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock
from uuid import uuid4

from nexus.broker.dispatch import Request, settled
from nexus.broker.handlers import produce
from nexus.broker.partition import Partition
from nexus.broker.topics import Topic
from nexus.cluster.leading import Rules
from nexus.cluster.partition_state import PartitionState
from nexus.log import LogConfig, PartitionLog
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from nexus.wire.records import Record, encode_batch

FAST, SLOW = 0, 1


def led(directory: Path, index: int, *others: int) -> Partition:
    """A partition that is led here; `others` must copy what is acknowledged."""
    source = PartitionLog.open(
        directory / str(index), LogConfig(), recovery_point=0, clean=False, now_ms=lambda: 1_000
    )
    partition = Partition("t", index, source, None, lambda _: None, is_shared=True)
    replicas = (1, *others)
    state = PartitionState(replicas, 1, 0, replicas, version=1)
    assert partition.lead(state, 1, Rules(min_in_sync=1), 0.0)
    return partition


async def answers(
    partitions: dict[int, Partition], timeout_ms: int
) -> dict[int, PartitionProduceResponse]:
    topic = Topic("t", uuid4(), {}, len(partitions), partitions, Mock())
    topics = SimpleNamespace(find=lambda _: topic)
    broker = SimpleNamespace(loop=asyncio.get_running_loop(), metrics=Mock(), topics=topics)
    batch = memoryview(encode_batch([Record(0, 1_000, None, b"v", ())]))
    body = ProduceRequest(
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[PartitionProduceData(index=n, records=batch) for n in partitions],
            )
        ],
    )
    request = cast("Request", SimpleNamespace(version=9))
    answer: Any = produce.handle(cast("Any", broker), request, body)
    response = await asyncio.wait_for(settled(answer), 10)
    return {one.index: one for one in response.responses[0].partition_responses}


def test_only_what_is_not_safe_in_time_is_late(tmp_path: Path) -> None:
    async def story() -> None:
        partitions = {FAST: led(tmp_path, FAST), SLOW: led(tmp_path, SLOW, 2)}
        found = await answers(partitions, 50)
        assert found[FAST].error_code == ErrorCode.NONE
        assert found[SLOW].error_code == ErrorCode.REQUEST_TIMED_OUT
        # It stays, and becomes visible when the follower has it.
        slow = partitions[SLOW]
        assert (slow.log.end_offset, slow.high_watermark) == (1, 0)
        slow.fetched(2, 0, 1, 1.0)
        assert slow.high_watermark == 1

    asyncio.run(story())


def test_what_becomes_safe_in_time_is_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        partition = led(tmp_path, SLOW, 2)
        waiting = asyncio.ensure_future(answers({SLOW: partition}, 30_000))
        await asyncio.sleep(0)  # it is appended before anybody waits
        assert partition.log.end_offset == 1
        partition.fetched(2, 0, 1, 1.0)
        found = await waiting
        assert (found[SLOW].error_code, found[SLOW].base_offset) == (ErrorCode.NONE, 0)

    asyncio.run(story())
