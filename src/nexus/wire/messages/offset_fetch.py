"""OffsetFetch (key 9): returns the positions that a group committed; -1 where there is none.

From version 2 on a null list asks for every partition, and there is an error for the whole group.
Version 5 adds leader epochs, 6 flexible fields, 7 a demand for stable offsets.
"""

from __future__ import annotations

from nexus.wire.fields import Kind, array, boolean, int16, int32, int64, message, string, structure


@structure
class OffsetFetchRequestTopic:
    """One topic's partitions."""

    name: str = string()
    partition_indexes: list[int] = array(Kind.INT32)


@message("1-7", flexible="6+")
class OffsetFetchRequest:
    """Whose positions, and of which partitions."""

    group_id: str = string()
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, nullable="2+")
    require_stable: bool = boolean("7+")


@structure
class OffsetFetchResponsePartition:
    """One partition's position, with the consumer's own note."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5+", default=-1)
    metadata: str | None = string(nullable="0+", default=None)
    error_code: int = int16()


@structure
class OffsetFetchResponseTopic:
    """One topic's positions."""

    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@message("1-7", flexible="6+")
class OffsetFetchResponse:
    """A group's positions."""

    throttle_time_ms: int = int32("3+")
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic)
    error_code: int = int16("2+")
