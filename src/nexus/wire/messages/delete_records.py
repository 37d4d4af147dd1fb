"""DeleteRecords (key 21): raises a partition's first offset; -1 stands for its high watermark.

Version 2 has flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import array, int16, int32, int64, message, string, structure


@structure
class DeleteRecordsPartition:
    """One partition's new first offset."""

    partition_index: int = int32()
    offset: int = int64()


@structure
class DeleteRecordsTopic:
    """One topic's partitions."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message("0-2", flexible="2+")
class DeleteRecordsRequest:
    """Where each partition shall begin."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@structure
class DeleteRecordsPartitionResult:
    """One partition's outcome."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@structure
class DeleteRecordsTopicResult:
    """One topic's outcomes."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message("0-2", flexible="2+")
class DeleteRecordsResponse:
    """Where each partition begins now."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
