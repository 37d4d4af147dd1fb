"""Fetch (key 1): reads whole record batches from many partitions, waiting for enough of them.

Version 5 adds the log's start offset, 7 incremental sessions, 9 the leader's epoch, 10 allows zstd,
11 adds the reader's rack and a preferred replica, 12 flexible fields and diverging epochs.
"""

from __future__ import annotations

from nexus.wire.fields import (
    Kind,
    Records,
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    structure,
)


@structure
class FetchPartition:
    """Where to read in one partition, and how much at most."""

    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()


@structure
class FetchTopic:
    """One topic's partitions to read."""

    topic: str = string()
    partitions: list[FetchPartition] = array(FetchPartition)


@structure
class ForgottenTopic:
    """Partitions to drop from the session."""

    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@message("4-12", flexible="12+")
class FetchRequest:
    """Where to read, and how much to wait for."""

    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0)
    replica_id: int = int32(default=-1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1)
    isolation_level: int = int8()
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


@structure
class EpochEndOffset:
    """The end of the latest epoch that the reader shares with the leader."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@structure
class LeaderIdAndEpoch:
    """The leader that the reader should turn to."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@structure
class SnapshotId:
    """A snapshot to fetch instead; only of use to controllers."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@structure
class AbortedTransaction:
    """A transaction whose records must be skipped."""

    producer_id: int = int64()
    first_offset: int = int64()


@structure
class PartitionData:
    """One partition's batches and bounds."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset | None = struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, nullable="0+", default=None
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records | None = records(nullable="0+")


@structure
class FetchableTopicResponse:
    """One topic's batches."""

    topic: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@message("4-12", flexible="12+")
class FetchResponse:
    """Record batches by topic and partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
