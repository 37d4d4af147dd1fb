"""ShareGroupHeartbeat (key 76): a member of a share group says that it is there.

Epoch 0 joins and -1 leaves; the answer tells the partitions to read. Only version 1 exists.
"""

from __future__ import annotations

from uuid import UUID

from nexus.wire.fields import (
    Kind,
    array,
    int16,
    int32,
    message,
    string,
    struct,
    structure,
    uuid,
)


@message("1", flexible="0+")
class ShareGroupHeartbeatRequest:
    """Who is there; null where nothing changed since the last time."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(Kind.STRING, nullable="0+", default=None)


@structure
class TopicPartitions:
    """One topic's partitions."""

    topic_id: UUID = uuid()
    partitions: list[int] = array(Kind.INT32)


@structure
class Assignment:
    """What a member is to read."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@message("1", flexible="0+")
class ShareGroupHeartbeatResponse:
    """The member's epoch, when to come again, and what to read where that changed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+")
