"""ListOffsets: the first, the last, or the offset at a time. Versions 1 to 6.

"Latest" is the high watermark: it never goes back, so a new leader answers when it knows how far it
may show. A time after the last message gives offset -1.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from nexus.broker.dispatch import Request
from nexus.broker.partition import OffsetNotAvailable, Partition
from nexus.wire.errors import InvalidRequest, ProtocolError
from nexus.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

# Some clients show their users that an offset is not there yet, so they are not told so soon.
SETTLE_SECONDS: Final = 5.0
LATEST: Final = -1
EARLIEST: Final = -2


def handle(broker: Broker, request: Request, body: ListOffsetsRequest) -> Any:
    """Answer at once, unless a time has to be looked up in the log, or a leader is new."""
    if any(
        part.timestamp >= 0 or _is_unsettled(broker, topic.name, part)
        for topic in body.topics
        for part in topic.partitions
    ):
        return _in_time(broker, body)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_edge(broker, topic.name, part) for part in topic.partitions],
            )
            for topic in body.topics
        ]
    )


def _is_unsettled(broker: Broker, name: str, wanted: ListOffsetsPartition) -> bool:
    topic = broker.topics.find(name)
    here = None if topic is None else topic.partitions.get(wanted.partition_index)
    return here is not None and wanted.timestamp == LATEST and not here.is_settled


async def _in_time(broker: Broker, body: ListOffsetsRequest) -> ListOffsetsResponse:
    topics = []
    for topic in body.topics:
        answers = [
            await _at_time(broker, topic.name, part)
            if part.timestamp >= 0
            else await _settled_edge(broker, topic.name, part)
            for part in topic.partitions
        ]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _edge(broker: Broker, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        partition = _readable(broker, topic, wanted)
        if wanted.timestamp == LATEST:
            if not partition.is_settled:
                raise OffsetNotAvailable("a new leader finds out how far it may show")
            answer.offset = partition.high_watermark
        elif wanted.timestamp == EARLIEST:
            answer.offset = partition.log.start_offset
        else:
            raise InvalidRequest(f"{wanted.timestamp} is no time and no special value")
        answer.leader_epoch = partition.leader_epoch
    except ProtocolError as error:
        answer.error_code = error.code
    return answer


async def _settled_edge(
    broker: Broker, topic: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    if _is_unsettled(broker, topic, wanted):
        partition = broker.topics.partition(topic, wanted.partition_index)
        # Whether it has settled or not, the answer says.
        with suppress(TimeoutError, ProtocolError):
            async with asyncio.timeout(SETTLE_SECONDS):
                if (leading := partition.leading) is not None:
                    await partition.safe(leading.first)
    return _edge(broker, topic, wanted)


async def _at_time(
    broker: Broker, topic: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        partition = _readable(broker, topic, wanted)
        found = await broker.off_loop(
            partition.log.offset_for_time, wanted.timestamp, partition.high_watermark
        )
        if found is not None:
            answer.offset, answer.timestamp = found
            answer.leader_epoch = partition.leader_epoch
    except ProtocolError as error:
        answer.error_code = error.code
    return answer


def _readable(broker: Broker, topic: str, wanted: ListOffsetsPartition) -> Partition:
    partition = broker.topics.partition(topic, wanted.partition_index)
    partition.check_readable(wanted.current_leader_epoch)
    return partition
