"""ListOffsets: the first, the last, or the offset at a time. Versions 1 to 6.

"Latest" is the high watermark: it never goes back. A time after the last message gives offset -1.
"""

from __future__ import annotations

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

LATEST: Final = -1
EARLIEST: Final = -2


def handle(broker: Broker, request: Request, body: ListOffsetsRequest) -> Any:
    """Answer at once, unless a time has to be looked up in the log."""
    if any(part.timestamp >= 0 for topic in body.topics for part in topic.partitions):
        return _by_time(broker, body)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_edge(broker, topic.name, part) for part in topic.partitions],
            )
            for topic in body.topics
        ]
    )


async def _by_time(broker: Broker, body: ListOffsetsRequest) -> ListOffsetsResponse:
    topics = []
    for topic in body.topics:
        answers = [
            await _at_time(broker, topic.name, part)
            if part.timestamp >= 0
            else _edge(broker, topic.name, part)
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
