"""WriteShareGroupState (key 85): stores what changed for a group in a partition.

One broker, who leads the partition, asks another, who leads the state; answered when it is durable.
"""

from __future__ import annotations

from uuid import UUID

from nexus.wire.fields import (
    array,
    int16,
    int32,
    int64,
    message,
    string,
    structure,
    uuid,
)
from nexus.wire.messages.read_share_group_state import StateBatch


@structure
class PartitionData:
    """What changed, and the epoch in which the asking broker leads the partition."""

    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


@structure
class WriteStateData:
    """One topic's partitions."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message("0", flexible="0+")
class WriteShareGroupStateRequest:
    """Of which group, and what changed."""

    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


@structure
class PartitionResult:
    """Whether it is stored."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@structure
class WriteStateResult:
    """One topic's partitions."""

    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message("0", flexible="0+")
class WriteShareGroupStateResponse:
    """Results by topic and partition."""

    results: list[WriteStateResult] = array(WriteStateResult)
