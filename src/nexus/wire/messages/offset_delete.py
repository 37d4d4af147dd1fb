"""OffsetDelete (key 47): forgets a group's positions in topics that it no longer reads.

There is only version 0.
"""

from __future__ import annotations

from nexus.wire.fields import array, int16, int32, message, string, structure


@structure
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: int = int32()


@structure
class OffsetDeleteRequestTopic:
    """One topic's partitions."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message("0")
class OffsetDeleteRequest:
    """Positions to forget."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@structure
class OffsetDeleteResponsePartition:
    """One partition's outcome."""

    partition_index: int = int32()
    error_code: int = int16()


@structure
class OffsetDeleteResponseTopic:
    """One topic's outcomes."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message("0")
class OffsetDeleteResponse:
    """Which positions were forgotten."""

    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
