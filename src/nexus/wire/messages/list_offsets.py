"""ListOffsets (key 2): finds a partition's first, last, or first-since-a-time offset.

The timestamps -1 and -2 ask for the latest and the earliest offset.

Version 2 adds the isolation level, 4 leader epochs, 6 flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import array, int8, int16, int32, int64, message, string, structure


@structure
class ListOffsetsPartition:
    """One partition's question."""

    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()


@structure
class ListOffsetsTopic:
    """One topic's questions."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message("1-6", flexible="6+")
class ListOffsetsRequest:
    """Which offsets to look up."""

    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)


@structure
class ListOffsetsPartitionResponse:
    """One partition's answer; -1 where nothing matched."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


@structure
class ListOffsetsTopicResponse:
    """One topic's answers."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message("1-6", flexible="6+")
class ListOffsetsResponse:
    """The offsets that were found."""

    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
