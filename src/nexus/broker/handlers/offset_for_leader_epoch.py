"""OffsetForLeaderEpoch: where an epoch ended. Versions 2 to 4.

Clients ask it after a change of leader, to find out whether what they have read still stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.wire.errors import ProtocolError
from nexus.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


def handle(
    broker: Broker, request: Request, body: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Look each epoch up in its partition's checkpoint."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end(broker, topic.topic, one) for one in topic.partitions],
            )
            for topic in body.topics
        ]
    )


def _end(broker: Broker, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = broker.topics.partition(topic, wanted.partition)
        partition.check_readable(wanted.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.log.end_for_epoch(wanted.leader_epoch)
    except ProtocolError as error:
        answer.error_code = error.code
    return answer
