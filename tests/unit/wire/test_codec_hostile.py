"""Whatever bytes come in, decoding ends in a message or in `MalformedMessage`, in little memory."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexus.wire.apis import APIS, Api
from nexus.wire.codec import decode, encode
from nexus.wire.decoder import ELEMENTS_MAX
from nexus.wire.errors import MalformedMessage
from nexus.wire.fields import describe
from nexus.wire.frames import decode_request_header
from nexus.wire.messages.delete_groups import DeleteGroupsRequest
from nexus.wire.messages.describe_groups import DescribeGroupsRequest
from nexus.wire.messages.fetch import FetchRequest, FetchTopic
from nexus.wire.messages.heartbeat import HeartbeatRequest
from nexus.wire.messages.metadata import MetadataRequest
from nexus.wire.messages.produce import ProduceRequest
from support.codec_strategies import messages

LIES = [
    b"\x7f\xff\xff\xff",  # the largest count
    b"\x80\x00\x00\x00",  # the most negative
    b"\xff\xff\xff\xfe",  # negative, and not null
    b"\xff\xff\xff\xff\x0f",  # the largest varint
    b"\xff\xff\xff\xff\x7f",  # a varint beyond 32 bits
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a varint that does not end in time
]

every_api = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
some = settings(
    max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def versions(cls: type) -> st.SearchStrategy[int]:
    return st.integers(*describe(cls).versions)


def survive(cls: type, data: bytes, version: int) -> None:
    """Decode; the only failure allowed is the typed one."""
    with contextlib.suppress(MalformedMessage):
        decode(cls, memoryview(data), version)


def compact(value: int) -> bytes:
    """Write a varint the slow way."""
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


@every_api
@given(data=st.data())
@some
def test_random_bytes_are_refused_or_understood(api: Api, data: st.DataObject) -> None:
    rubbish = data.draw(st.binary(max_size=200))
    survive(api.request, rubbish, data.draw(versions(api.request)))
    survive(api.response, rubbish, data.draw(versions(api.response)))


@every_api
@given(data=st.data())
@some
def test_a_message_cut_short_is_refused(api: Api, data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from([api.request, api.response]))
    version = data.draw(versions(cls))
    whole = bytes(encode(data.draw(messages(cls, version)), version))
    if whole:
        cut = data.draw(st.integers(0, len(whole) - 1))
        with pytest.raises(MalformedMessage):
            decode(cls, memoryview(whole)[:cut], version)


@every_api
@given(data=st.data())
@some
def test_a_lie_anywhere_in_a_message_does_no_harm(api: Api, data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from([api.request, api.response]))
    version = data.draw(versions(cls))
    whole = bytes(encode(data.draw(messages(cls, version)), version))[:2000]
    lie = data.draw(st.sampled_from(LIES))
    for at in range(0, len(whole), data.draw(st.integers(1, 7))):
        survive(cls, whole[:at] + lie + whole[at + len(lie) :], version)


@given(st.binary(max_size=40))
@some
def test_random_headers_are_refused_or_understood(rubbish: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        decode_request_header(memoryview(rubbish))


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("lie", LIES)
def test_an_absurd_count_takes_no_memory(version: int, lie: bytes) -> None:
    head = b"\x00" if version == 9 else b"\xff\xff"
    body = head + b"\xff\xff\x00\x00\x75\x30" + lie + bytes(100)
    with pytest.raises(MalformedMessage):
        decode(ProduceRequest, memoryview(body), version)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage):
            decode(ProduceRequest, memoryview(body), version)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_count_must_fit_into_what_remains() -> None:
    # A topic takes at least six bytes: its name's length and its partitions' count.
    topics = encode(FetchRequest(topics=[FetchTopic(), FetchTopic()]), 4)
    claim = bytes(topics).replace(b"\x00\x00\x00\x02", b"\x00\x00\x00\x03")
    with pytest.raises(MalformedMessage, match=r"FetchRequest.topics claims 3"):
        decode(FetchRequest, memoryview(claim), 4)


@pytest.mark.parametrize("version", [1, 2])
def test_no_message_may_have_too_many_elements(version: int) -> None:
    empty = b"\x01" if version == 2 else b"\x00\x00"
    for count, fits in ((ELEMENTS_MAX, True), (ELEMENTS_MAX + 1, False)):
        head = compact(count + 1) if version == 2 else count.to_bytes(4, "big")
        body = head + empty * count + (b"\x00" if version == 2 else b"")
        if fits:
            assert len(decode(DeleteGroupsRequest, memoryview(body), version).groups_names) == count
        else:
            with pytest.raises(MalformedMessage):
                decode(DeleteGroupsRequest, memoryview(body), version)


def test_unknown_tagged_fields_are_skipped() -> None:
    known = FetchRequest(cluster_id="c", rack_id="r")
    body = bytes(encode(known, 12))
    tag_of_cluster = b"\x01\x00\x02\x02c"
    assert body.endswith(tag_of_cluster)
    tags = b"\x03" + tag_of_cluster[1:] + b"\x63\x03abc" + compact(2**31) + b"\x00"
    body = body.removesuffix(tag_of_cluster) + tags
    assert decode(FetchRequest, memoryview(body), 12) == known


@pytest.mark.parametrize(
    "tags",
    [
        b"\xff\xff\xff\xff\x0f",  # four billion tags
        b"\x01\x63\xff\xff\xff\xff\x0f",  # one of four gigabytes
        b"\x01\x63\x02a",  # one that goes a byte beyond the end
        b"\x01\xff\xff\xff\xff\xff\x01\x00",  # a tag number that is no varint
        b"\x01\x00\x03\x02c",  # a known one whose size is not its own
        b"\x01\x00\x01\x02c",
    ],
)
def test_tagged_fields_that_lie_are_refused(tags: bytes) -> None:
    body = bytes(encode(FetchRequest(), 12))[:-1] + tags
    with pytest.raises(MalformedMessage):
        decode(FetchRequest, memoryview(body), 12)


def test_many_tags_are_skipped_in_every_element() -> None:
    element = b"\x00" * 16 + b"\x02t" + compact(20_000) + b"\x64\x00" * 20_000
    body = b"\x04" + element * 3 + b"\x01\x00" + compact(300) + b"\x65\x01x" * 300
    topics = decode(MetadataRequest, memoryview(body), 12).topics
    assert topics is not None
    assert [topic.name for topic in topics] == ["t"] * 3


@pytest.mark.parametrize(("tags", "fits"), [(ELEMENTS_MAX, True), (ELEMENTS_MAX + 1, False)])
def test_no_message_may_have_too_many_tags(tags: int, fits: bool) -> None:
    body = bytes(encode(HeartbeatRequest(), 4))[:-1] + compact(tags) + b"\x64\x00" * tags
    with contextlib.nullcontext() if fits else pytest.raises(MalformedMessage):
        decode(HeartbeatRequest, memoryview(body), 4)


def test_text_too_long_for_older_versions_is_refused_in_new_ones_too() -> None:
    for length, fits in ((32_767, True), (32_768, False)):
        body = encode(DeleteGroupsRequest(groups_names=["x" * length]), 2)
        with contextlib.nullcontext() if fits else pytest.raises(MalformedMessage):
            decode(DeleteGroupsRequest, memoryview(body), 2)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        decode(DescribeGroupsRequest, memoryview(b"\x00\x00\x00\x01\x00\x02\xc3\x28"), 0)
