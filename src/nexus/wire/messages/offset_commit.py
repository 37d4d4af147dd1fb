"""OffsetCommit (key 8): stores a group's position in each partition.

Versions 2-4 may set how long it is kept. Version 6 adds the leader epoch of the last record read,
7 static members, 8 flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import array, int16, int32, int64, message, string, structure


@structure
class OffsetCommitRequestPartition:
    """One partition's position, with the consumer's own note."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1)
    committed_metadata: str | None = string(nullable="0+", default=None)


@structure
class OffsetCommitRequestTopic:
    """One topic's positions."""

    name: str = string()
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message("2-8", flexible="8+")
class OffsetCommitRequest:
    """Positions to store, and the member that stores them."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("0-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@structure
class OffsetCommitResponsePartition:
    """One partition's outcome."""

    partition_index: int = int32()
    error_code: int = int16()


@structure
class OffsetCommitResponseTopic:
    """One topic's outcomes."""

    name: str = string()
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message("2-8", flexible="8+")
class OffsetCommitResponse:
    """Which positions were stored."""

    throttle_time_ms: int = int32("3+")
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
