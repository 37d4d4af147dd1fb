"""Produce (key 0): appends record batches, and answers once they are as durable as `acks` asks.

A request with `acks` 0 has no response. Versions 0-2, with the old message formats, are refused.

Version 3 brings record batches of format 2 and a transactional id, 5 the log's start offset,
7 zstd, 8 the errors of single records and a message for people, 9 flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import array, int16, int32, int64, message, records, string, structure


@structure
class PartitionProduceData:
    """One partition's batches, as they came."""

    index: int = int32()
    records: memoryview | None = records(nullable="0+")


@structure
class TopicProduceData:
    """One topic's batches."""

    name: str = string()
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message("3-9", flexible="9+")
class ProduceRequest:
    """Batches to append, by topic and partition."""

    transactional_id: str | None = string(nullable="0+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@structure
class BatchIndexAndErrorMessage:
    """A record that caused its batch to be refused."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+", default=None)


@structure
class PartitionProduceResponse:
    """Where the batch was appended, or why not."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+", default=None)


@structure
class TopicProduceResponse:
    """One topic's outcomes."""

    name: str = string()
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@message("3-9", flexible="9+")
class ProduceResponse:
    """What became of each batch."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
