"""ShareAcknowledge (key 79): says what became of messages that were taken by ShareFetch.

Version 1 is the first, 2 adds renewal. An epoch of 0 stands outside of every session: whoever knows
the member's id may speak for it. Kafka's own clients never send that.
"""

from __future__ import annotations

from uuid import UUID

from nexus.wire.fields import (
    OWN_TAGS,
    Kind,
    array,
    boolean,
    int16,
    int32,
    message,
    string,
    struct,
    structure,
    uuid,
)
from nexus.wire.messages.fetch import LeaderIdAndEpoch
from nexus.wire.messages.share_fetch import AcknowledgementBatch, NodeEndpoint


@structure
class AcknowledgePartition:
    """What became of messages of one partition."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@structure
class AcknowledgeTopic:
    """One topic's partitions."""

    topic_id: UUID = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


@message("1-2", flexible="0+")
class ShareAcknowledgeRequest:
    """Who took the messages, and what became of them."""

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


@structure
class PartitionData:
    """Whether all that was said of a partition is stored."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    # With INVALID_RECORD_STATE: which offsets are not held by the member; the others took effect.
    not_held: list[int] = array(Kind.INT64, tag=OWN_TAGS)


@structure
class ShareAcknowledgeTopicResponse:
    """One topic's partitions."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message("1-2", flexible="0+")
class ShareAcknowledgeResponse:
    """Results by topic and partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+")
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
