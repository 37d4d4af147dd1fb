"""OffsetForLeaderEpoch (key 23): tells where an epoch ended, so that readers see truncation.

Version 3 adds the asking replica, 4 flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import array, int16, int32, int64, message, string, structure


@structure
class OffsetForLeaderPartition:
    """One partition's question."""

    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


@structure
class OffsetForLeaderTopic:
    """One topic's questions."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message("2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Which epochs are asked about."""

    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@structure
class EpochEndOffset:
    """One partition's answer."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@structure
class OffsetForLeaderTopicResult:
    """One topic's answers."""

    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@message("2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """Where the epochs ended."""

    throttle_time_ms: int = int32()
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
