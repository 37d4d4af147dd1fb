"""What message classes and the codec promise to the code that uses them."""

from __future__ import annotations

import pytest

from nexus.wire.codec import Splits, decode, encode
from nexus.wire.errors import MalformedMessage, UnsupportedVersion
from nexus.wire.fields import ZERO_UUID, Versions
from nexus.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from nexus.wire.messages.heartbeat import HeartbeatRequest
from nexus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from nexus.wire.messages.offset_commit import OffsetCommitRequest
from nexus.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from nexus.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from nexus.wire.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest
from nexus.wire.messages.share_fetch import PartitionData as PartitionOfShare
from nexus.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)


class FileSlice:
    """Stands for records on disk."""

    def __init__(self, size: int) -> None:
        self.size = size


def produce(records: memoryview | None) -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=records)
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="t", partition_data=[partition])],
    )


def test_a_message_begins_with_defaults_and_lists_of_its_own() -> None:
    one, other = ProduceRequest(), ProduceRequest()
    assert (one.transactional_id, one.acks, one.topic_data) == (None, 0, [])
    one.topic_data.append(TopicProduceData())
    assert other.topic_data == []


def test_a_null_list_is_kept_apart_from_an_empty_one() -> None:
    assert MetadataRequest(topics=None).topics is None
    for request in (MetadataRequest(), MetadataRequest(topics=None)):
        assert decode(MetadataRequest, memoryview(encode(request, 9)), 9) == request


def test_messages_are_equal_when_their_fields_are() -> None:
    assert produce(memoryview(b"abc")) == produce(memoryview(b"abc"))
    assert produce(memoryview(b"abc")) != produce(memoryview(b"abd"))
    structures: list[object] = [TopicProduceData(), PartitionProduceData()]
    assert structures[0] != structures[1]
    assert "group_id='g'" in repr(HeartbeatRequest(group_id="g"))


def test_a_misspelt_field_is_an_error() -> None:
    with pytest.raises(TypeError):
        HeartbeatRequest(groupid="g")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        HeartbeatRequest().groupid = "g"  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_writable_slices_of_the_frame(version: int) -> None:
    frame = encode(produce(memoryview(b"abc")), version)
    request = decode(ProduceRequest, memoryview(frame), version)
    records = request.topic_data[0].partition_data[0].records
    assert records is not None
    records[0] = ord("x")
    assert b"xbc" in frame


def test_fields_that_a_version_lacks_are_left_out_and_decode_to_defaults() -> None:
    commit = OffsetCommitRequest(group_id="g", group_instance_id="i", retention_time_ms=5)
    decoded = decode(OffsetCommitRequest, memoryview(encode(commit, 5)), 5)
    assert (decoded.group_instance_id, decoded.retention_time_ms) == (None, -1)
    topic = decode(MetadataRequest, memoryview(b"\x00\x00\x00\x01\x00\x01t"), 1).topics
    assert topic == [MetadataRequestTopic(topic_id=ZERO_UUID, name="t")]


def test_null_is_refused_where_a_version_does_not_allow_it() -> None:
    null_name = b"\x00\x00\x00\x01\xff\xff"
    with pytest.raises(MalformedMessage, match=r"MetadataRequestTopic\.name"):
        decode(MetadataRequest, memoryview(null_name), 1)
    with pytest.raises(MalformedMessage, match=r"MetadataRequest\.topics"):
        decode(MetadataRequest, memoryview(b"\xff\xff\xff\xff"), 0)
    assert decode(MetadataRequest, memoryview(b"\xff\xff\xff\xff"), 1).topics is None


def test_bytes_after_the_message_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="1 bytes are left over"):
        decode(HeartbeatRequest, memoryview(encode(HeartbeatRequest(), 0) + b"\x00"), 0)


def test_a_message_may_begin_inside_the_frame() -> None:
    frame = b"header" + encode(HeartbeatRequest(group_id="g"), 4)
    assert decode(HeartbeatRequest, memoryview(frame), 4, at=6).group_id == "g"


@pytest.mark.parametrize("version", [-1, 2, 10])
def test_versions_that_are_not_served_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        decode(ProduceRequest, memoryview(b""), version)
    with pytest.raises(UnsupportedVersion):
        encode(ProduceRequest(), version)


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize("size", [0, 100, 70_000, 3_000_000, 300_000_000])
def test_a_payload_is_counted_but_not_written(version: int, size: int) -> None:
    splits: Splits = []
    payload = FileSlice(size)
    partition = PartitionData(partition_index=1, records=payload)
    topic = FetchableTopicResponse(topic="t", partitions=[partition])
    out = encode(FetchResponse(responses=[topic]), version, splits)
    assert [noted for _, noted in splits] == [payload]
    if size < 1_000_000:
        position = splits[0][0]
        filled = out[:position] + bytes(size) + out[position:]
        decoded = decode(FetchResponse, memoryview(filled), version)
        assert decoded.responses[0].partitions[0].records == bytes(size)


def test_versions_are_written_as_kafka_writes_them() -> None:
    assert Versions.parse("4") == (4, 4)
    assert Versions.parse("0-7") == (0, 7)
    assert 10**6 in Versions.parse("3+")
    assert 2 not in Versions.parse("3+")


def test_what_only_we_know_of_acknowledgements_arrives() -> None:
    batch = AcknowledgementBatch(
        first_offset=1, last_offset=2, acknowledge_types=[2], delay_ms=500, reason="no such host"
    )
    partition = AcknowledgePartition(partition_index=3, acknowledgement_batches=[batch])
    request = ShareAcknowledgeRequest(
        group_id="g", member_id="m", topics=[AcknowledgeTopic(partitions=[partition])]
    )
    for version in (1, 2):
        encoded = memoryview(encode(request, version))
        assert decode(ShareAcknowledgeRequest, encoded, version) == request
    fetch = ShareFetchRequest(group_id="g", member_id="m", is_detached=True)
    assert decode(ShareFetchRequest, memoryview(encode(fetch, 1)), 1).is_detached


def test_a_structure_may_be_null_and_one_that_may_not_is_made() -> None:
    none = ShareGroupHeartbeatResponse(member_id="m")
    some = ShareGroupHeartbeatResponse(
        member_id="m", assignment=Assignment(topic_partitions=[TopicPartitions(partitions=[1])])
    )
    for response in (none, some):
        assert decode(ShareGroupHeartbeatResponse, memoryview(encode(response, 1)), 1) == response
    one, other = PartitionOfShare(), PartitionOfShare()
    assert one.current_leader == LeaderIdAndEpoch()
    assert one.current_leader is not other.current_leader
