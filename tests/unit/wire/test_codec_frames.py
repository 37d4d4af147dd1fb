"""Whole requests and responses, as a client sends and reads them."""

from __future__ import annotations

import pytest

from nexus.wire.apis import APIS, Api, ApiKey
from nexus.wire.codec import decode
from nexus.wire.errors import MalformedMessage
from nexus.wire.fields import Records
from nexus.wire.frames import decode_request_header, encode_response
from nexus.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from support.codec_oracles import kafka_python_reads, kafka_python_request

# As advertised, and thereby what clients choose from.
RANGES = {
    ApiKey.PRODUCE: (0, 9),
    ApiKey.FETCH: (4, 12),
    ApiKey.LIST_OFFSETS: (1, 6),
    ApiKey.METADATA: (0, 12),
    ApiKey.OFFSET_COMMIT: (2, 8),
    ApiKey.OFFSET_FETCH: (1, 7),
    ApiKey.FIND_COORDINATOR: (0, 3),
    ApiKey.JOIN_GROUP: (0, 7),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 4),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 4),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 1),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 0),
}

every_version = pytest.mark.parametrize(
    ("api", "version"),
    [
        pytest.param(api, version, id=f"{api.name}-{version}")
        for api in APIS.values()
        for version in range(api.min_version, api.max_version + 1)
        # kafka-python, whom these ask, does not know share groups.
        if api.serves(version) and "Share" not in api.name
    ],
)


class FileSlice:
    """Stands for records on disk."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.size = len(content)


def test_exactly_these_apis_and_versions_are_advertised() -> None:
    assert {api.key: (api.min_version, api.max_version) for api in APIS.values()} == RANGES


def test_old_produce_versions_are_advertised_but_not_served() -> None:
    produce = APIS[ApiKey.PRODUCE]
    assert [version for version in range(11) if produce.serves(version)] == list(range(3, 10))


@every_version
def test_a_request_of_kafka_python_is_read(api: Api, version: int) -> None:
    frame = kafka_python_request(api.request, version, correlation_id=77, client_id="me")
    view = memoryview(frame)[4:]
    header, body = decode_request_header(view)
    assert (header.request_api_key, header.request_api_version) == (api.key, version)
    assert (header.correlation_id, header.client_id) == (77, "me")
    assert isinstance(decode(api.request, view, version, body), api.request)


@every_version
def test_a_response_is_read_by_kafka_python(api: Api, version: int) -> None:
    (frame,) = encode_response(api, version, 77, api.response())
    assert isinstance(frame, bytearray)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert kafka_python_reads(api.response, version, bytes(frame)) == 77


def test_an_unknown_api_still_has_its_correlation_id() -> None:
    header, _ = decode_request_header(memoryview(b"\x03\xe7\x00\x01\x00\x00\x00\x07\xff"))
    assert (header.request_api_key, header.correlation_id, header.client_id) == (999, 7, None)


def test_a_version_that_is_too_new_still_has_a_header() -> None:
    request = b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x02me\x00whatever"
    header, _ = decode_request_header(memoryview(request))
    assert (header.request_api_version, header.correlation_id, header.client_id) == (99, 7, "me")


def test_a_client_may_have_no_name() -> None:
    header, body = decode_request_header(memoryview(b"\x00\x0c\x00\x00\x00\x00\x00\x07\xff\xff"))
    assert (header.client_id, body) == (None, 10)


@pytest.mark.parametrize("size", range(8))
def test_too_few_bytes_for_a_header_are_refused(size: int) -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(memoryview(bytes(size)))


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_frame_goes_around_its_payloads(version: int) -> None:
    contents = [b"a" * 100, b"", b"b" * 70_000]
    pieces = encode_response(APIS[ApiKey.FETCH], version, 5, responding(*map(FileSlice, contents)))
    assert [piece.content for piece in pieces if isinstance(piece, FileSlice)] == contents
    (in_memory,) = encode_response(APIS[ApiKey.FETCH], version, 5, responding(*contents))
    assert b"".join(map(content, pieces)) == content(in_memory)


def responding(*records: Records) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=index, records=data) for index, data in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


def content(piece: Records) -> bytes:
    if isinstance(piece, FileSlice):
        return piece.content
    assert isinstance(piece, bytes | bytearray | memoryview)
    return bytes(piece)
