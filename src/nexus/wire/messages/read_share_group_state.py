"""ReadShareGroupState (key 84): what is stored of a group in a partition; one broker asks another.

Whoever reads with a leader epoch shuts out all who lead in an earlier one. Without a group, which
Kafka has no use for, the answer names the groups that have a state, in a field of ours.
"""

from __future__ import annotations

from uuid import UUID

from nexus.wire.fields import (
    OWN_TAGS,
    Kind,
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    structure,
    uuid,
)


@structure
class PartitionData:
    """A partition, and the epoch in which the asking broker leads it."""

    partition: int = int32()
    leader_epoch: int = int32()


@structure
class ReadStateData:
    """One topic's partitions."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message("0", flexible="0+")
class ReadShareGroupStateRequest:
    """Of which group, and which partitions."""

    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


@structure
class StateBatch:
    """What is known of the messages from first to last."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@structure
class PartitionResult:
    """All before the start is finished; the batches say what is after it."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)
    groups: list[str] = array(Kind.STRING, tag=OWN_TAGS)


@structure
class ReadStateResult:
    """One topic's partitions."""

    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message("0", flexible="0+")
class ReadShareGroupStateResponse:
    """What is stored, by topic and partition."""

    results: list[ReadStateResult] = array(ReadStateResult)
