"""OffsetCommit: remember how far a group has read. Versions 2 to 8.

Answered once the positions are stored as safely as any acks=all message. Positions of partitions
that do not exist are refused one by one; the rest is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.groups import CommitRequest, CommitResult, OffsetToCommit
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(
    broker: Broker, request: Request, body: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Store the positions."""
    known = [
        OffsetToCommit(
            topic=topic.name,
            partition=one.partition_index,
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata,
        )
        for topic in body.topics
        for one in topic.partitions
        if broker.topics.has(topic.name, one.partition_index)
    ]
    commit = CommitRequest(
        group_id=body.group_id,
        offsets=tuple(known),
        generation_id=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        retention_ms=body.retention_time_ms,
    )
    result: CommitResult = await broker.groups.ask(
        body.group_id, lambda c: lambda token, now: c.commit(token, commit, now)
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=result.errors.get((topic.name, one.partition_index), unknown),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )
