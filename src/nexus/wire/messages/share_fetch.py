"""ShareFetch (key 78): takes messages of a share group to work on, and says what became of others.

Version 1 is the first, 2 adds renewal and the acquire mode. Fields with a tag from 10,000 on are
ours: other servers skip them, other clients never send them.
"""

from __future__ import annotations

from enum import IntEnum
from uuid import UUID

from nexus.wire.fields import (
    OWN_TAGS,
    Kind,
    Records,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    structure,
    uuid,
)
from nexus.wire.messages.fetch import LeaderIdAndEpoch


class AcknowledgeType(IntEnum):
    """What became of a message."""

    GAP = 0  # there is no message at this offset
    ACCEPT = 1  # it is done
    RELEASE = 2  # it is to be delivered again
    REJECT = 3  # it can never be worked on
    RENEW = 4  # it needs more time


@structure
class AcknowledgementBatch:
    """What became of the messages from first to last: one word for all, or one for each."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(Kind.INT8)
    # How long what is released waits, and why something is rejected.
    delay_ms: int = int32(tag=OWN_TAGS)
    reason: str | None = string(nullable="0+", default=None, tag=OWN_TAGS + 1)
    # Of what is released: nobody saw it, so that this attempt does not count.
    is_undelivered: bool = boolean(tag=OWN_TAGS + 2)


@structure
class FetchPartition:
    """A partition to take messages from."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@structure
class FetchTopic:
    """One topic's partitions to take messages from."""

    topic_id: UUID = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


@structure
class ForgottenTopic:
    """Partitions to drop from the session."""

    topic_id: UUID = uuid()
    partitions: list[int] = array(Kind.INT32)


@message("1-2", flexible="0+")
class ShareFetchRequest:
    """Who wants messages, how many, and how long it waits for them."""

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8("2+")
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)
    # What this session takes is held until its time is up, even if the connection ends before.
    is_detached: bool = boolean(tag=OWN_TAGS)


@structure
class AcquiredRecords:
    """Messages that the member holds now, and how often they were delivered."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


@structure
class PartitionData:
    """One partition's batches, and which of their messages are meant."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    records: Records | None = records(nullable="0")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)
    # What the member held and somebody else settled in its name since the session's last answer.
    settled: list[int] = array(Kind.INT64, tag=OWN_TAGS)


@structure
class ShareFetchableTopicResponse:
    """One topic's batches."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@structure
class NodeEndpoint:
    """A broker that leads what the answer calls led elsewhere."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message("1-2", flexible="0+")
class ShareFetchResponse:
    """Batches by topic and partition, and for how long they are held."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
