"""A new leader is asked for its end before it knows how far it may show."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from nexus.broker.dispatch import settled
from nexus.broker.handlers import list_offsets
from nexus.broker.partition import Partition
from nexus.cluster.leading import Rules
from nexus.cluster.partition_state import PartitionState
from nexus.log import LogConfig, PartitionLog
from nexus.wire.batch import check_from_client
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from nexus.wire.records import Record, encode_batch


def test_it_answers_when_its_followers_have_told_what_they_have(tmp_path: Path) -> None:
    async def story() -> None:
        source = PartitionLog.open(
            tmp_path, LogConfig(), recovery_point=0, clean=False, now_ms=lambda: 1_000
        )
        batch = memoryview(encode_batch([Record(0, 1_000, None, b"v", ())]))
        source.append(batch, check_from_client(batch), 0)
        partition = Partition("t", 0, source, None, lambda _: None, is_shared=True)
        state = PartitionState((1, 2), 1, 1, (1, 2), version=1)
        assert partition.lead(state, 1, Rules(min_in_sync=1), 0.0)
        assert not partition.is_settled
        topic = SimpleNamespace(partitions={0: partition})
        topics = SimpleNamespace(find=lambda _: topic, partition=lambda *_: partition)
        wanted = ListOffsetsPartition(partition_index=0, timestamp=list_offsets.LATEST)
        body = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[wanted])])
        broker = cast("Any", SimpleNamespace(topics=topics))
        asked = asyncio.ensure_future(settled(list_offsets.handle(broker, cast("Any", None), body)))
        await asyncio.sleep(0.01)
        assert not asked.done()
        partition.fetched(2, 1, 1, 1.0)
        answer = (await asyncio.wait_for(asked, 10)).topics[0].partitions[0]
        assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 1)

    asyncio.run(story())
