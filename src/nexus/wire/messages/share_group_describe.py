"""ShareGroupDescribe (key 77): shows share groups, their members and what they read.

Only version 1 exists. Fields with a tag from 10,000 on are ours: what the broker that answers
leads, whether it coordinates the group or not.
"""

from __future__ import annotations

from uuid import UUID

from nexus.wire.fields import (
    OWN_TAGS,
    Kind,
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    structure,
    uuid,
)


@message("1", flexible="0+")
class ShareGroupDescribeRequest:
    """Which groups to show."""

    group_ids: list[str] = array(Kind.STRING)
    include_authorized_operations: bool = boolean()


@structure
class TopicPartitions:
    """One topic's partitions."""

    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: list[int] = array(Kind.INT32)


@structure
class Assignment:
    """What a member reads."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@structure
class Member:
    """A member and what it reads."""

    member_id: str = string()
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(Kind.STRING)
    assignment: Assignment = struct(Assignment)


@structure
class Queue:
    """How far the group is in a partition: all before `start_offset` is finished."""

    topic_name: str = string()
    partition: int = int32()
    start_offset: int = int64()
    end_offset: int = int64()
    waiting: int = int64()
    in_flight: int = int64()


@structure
class Reader:
    """Who takes messages here now, for itself or for others."""

    member_id: str = string()
    client_host: str = string()


@structure
class DescribedGroup:
    """A group and its members."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-(2**31))
    queues: list[Queue] = array(Queue, tag=OWN_TAGS)
    readers: list[Reader] = array(Reader, tag=OWN_TAGS + 1)


@message("1", flexible="0+")
class ShareGroupDescribeResponse:
    """The groups."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
