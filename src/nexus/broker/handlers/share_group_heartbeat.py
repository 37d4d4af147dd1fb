"""ShareGroupHeartbeat: a member of a share group says that it is there. Version 1.

Answered by the group's coordinator, which is found as that of a classic group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.groups.share_members import HEARTBEAT_INTERVAL_MS, Assigned, Beat
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(
    broker: Broker, request: Request, body: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    """Keep the member, and tell it what to read."""
    if await broker.groups.coordinator_of(body.group_id) != broker.settings.broker.id:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    names = body.subscribed_topic_names
    beat = Beat(
        body.group_id,
        body.member_id,
        body.member_epoch,
        None if names is None else tuple(names),
        request.client_id,
        request.connection.peer_host,
    )

    def partitions_of(name: str) -> int:
        topic = broker.topics.find(name)
        return 0 if topic is None or topic.is_internal else topic.count

    result = broker.sharing.groups.beat(beat, partitions_of, broker.sharing.now_ms())
    return ShareGroupHeartbeatResponse(
        error_code=result.error,
        member_id=body.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        assignment=None if result.assigned is None else _assignment(broker, result.assigned),
    )


def _assignment(broker: Broker, assigned: Assigned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic.topic_id, partitions=list(partitions))
            for name, partitions in assigned.items()
            if (topic := broker.topics.find(name)) is not None
        ]
    )
