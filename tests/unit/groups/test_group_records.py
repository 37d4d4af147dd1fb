"""The bytes of `__consumer_offsets`: as Kafka writes them, and safe to read whatever they are."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexus.groups.reader import subscribed_topics
from nexus.groups.records import (
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from nexus.wire.errors import MalformedMessage

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=40)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def data(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def compact(value: bytes) -> bytes:
    return bytes([len(value) + 1]) + value


MEMBER = MemberValue("m-1", "host-1", "client", "/10.0.0.1", 60_000, 10_000, b"sub", b"asg")
GROUP = GroupValue("consumer", 7, "range", "m-1", 1_234, (MEMBER,))


def test_keys_have_kafkas_bytes() -> None:
    key = encode_offset_key("g", "topic", 5)
    assert key == b"\0\1" + text("g") + text("topic") + b"\0\0\0\5"
    assert encode_group_key("g") == b"\0\2" + text("g")


def test_an_offset_is_written_in_version_3() -> None:
    value = encode_offset_value(OffsetValue(100, 4, "note", 1_000))
    expected = b"\0\3" + struct.pack(">qi", 100, 4) + text("note") + struct.pack(">q", 1_000)
    assert value == expected


def test_an_offset_with_its_own_expiry_is_written_in_version_1() -> None:
    value = encode_offset_value(OffsetValue(100, 4, "", 1_000, 2_000))
    assert value == b"\0\1" + struct.pack(">q", 100) + text("") + struct.pack(">qq", 1_000, 2_000)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            b"\0\0" + struct.pack(">q", 9) + text("m") + struct.pack(">q", 8),
            OffsetValue(9, -1, "m", 8),
        ),
        (
            b"\0\1" + struct.pack(">q", 9) + text("m") + struct.pack(">qq", 8, 99),
            OffsetValue(9, -1, "m", 8, 99),
        ),
        (
            b"\0\2" + struct.pack(">q", 9) + text("m") + struct.pack(">q", 8),
            OffsetValue(9, -1, "m", 8),
        ),
        (
            b"\0\4"
            + struct.pack(">qi", 9, 2)
            + compact(b"m")
            + struct.pack(">q", 8)
            + b"\1\0\x10"
            + bytes(16),
            OffsetValue(9, 2, "m", 8),
        ),
    ],
)
def test_every_version_of_an_offset_is_read(value: bytes, expected: OffsetValue) -> None:
    assert decode_offset_value(value) == expected


def test_a_group_is_written_in_version_3() -> None:
    expected = (
        b"\0\3"
        + text("consumer")
        + struct.pack(">i", 7)
        + text("range")
        + text("m-1")
        + struct.pack(">qi", 1_234, 1)
        + text("m-1")
        + text("host-1")
        + text("client")
        + text("/10.0.0.1")
        + struct.pack(">ii", 60_000, 10_000)
        + data(b"sub")
        + data(b"asg")
    )
    assert encode_group_value(GROUP) == expected


def test_an_empty_group_has_null_protocol_and_leader() -> None:
    value = encode_group_value(GroupValue("consumer", 8, None, None, 5))
    head = b"\0\3" + text("consumer") + struct.pack(">i", 8)
    assert value == head + b"\xff\xff\xff\xff" + struct.pack(">qi", 5, 0)


def test_a_group_of_version_0_has_neither_rebalance_timeout_nor_times() -> None:
    member = text("m") + text("c") + text("h") + struct.pack(">i", 9_000) + data(b"s") + data(b"a")
    value = b"\0\0" + text("consumer") + struct.pack(">i", 1) + text("range") + text("m")
    read = decode_group_value(value + struct.pack(">i", 1) + member)
    assert read.state_ms == -1
    assert read.members == (MemberValue("m", None, "c", "h", 9_000, 9_000, b"s", b"a"),)


def test_a_group_of_version_4_is_compact_and_tagged() -> None:
    member = (
        compact(b"m")
        + b"\0"
        + compact(b"c")
        + compact(b"h")
        + struct.pack(">ii", 60, 10)
        + compact(b"s")
        + compact(b"a")
        + b"\0"
    )
    head = b"\0\4" + compact(b"consumer") + struct.pack(">i", 1) + compact(b"range") + compact(b"m")
    value = head + struct.pack(">q", 3) + b"\2" + member + b"\1\7\2xy"
    assert decode_group_value(value).members == (
        MemberValue("m", None, "c", "h", 60, 10, b"s", b"a"),
    )


@unhurried
@given(NAMES, NAMES, INT32)
def test_keys_round_trip(group: str, topic: str, partition: int) -> None:
    assert decode_key(encode_offset_key(group, topic, partition)) == OffsetKey(
        group, topic, partition
    )
    assert decode_key(encode_group_key(group)) == GroupKey(group)


@unhurried
@given(st.builds(OffsetValue, INT64, INT32, NAMES, INT64))
def test_offsets_round_trip(value: OffsetValue) -> None:
    assert decode_offset_value(encode_offset_value(value)) == value


MEMBERS = st.builds(
    MemberValue,
    NAMES,
    st.none() | NAMES,
    NAMES,
    NAMES,
    st.integers(0, 2**31 - 1),
    INT32,
    st.binary(max_size=50),
    st.binary(max_size=50),
)
GROUPS = st.builds(
    GroupValue,
    NAMES,
    st.integers(0, 2**31 - 1),
    NAMES,
    st.none() | NAMES,
    INT64,
    st.lists(MEMBERS, max_size=4, unique_by=lambda m: m.member_id)
    .filter(lambda ms: len({m.group_instance_id for m in ms}) == len(ms))
    .map(tuple),
)


@unhurried
@given(GROUPS)
def test_groups_round_trip(value: GroupValue) -> None:
    assert decode_group_value(encode_group_value(value)) == value


@unhurried
@given(st.binary(max_size=80) | st.binary(max_size=80).map(lambda b: b"\0\3" + b))
def test_rubbish_is_only_ever_malformed(rubbish: bytes) -> None:
    for decode in (decode_key, decode_offset_value, decode_group_value, subscribed_topics):
        with suppress(MalformedMessage):
            decode(rubbish)


@unhurried
@given(st.data())
def test_a_cut_record_is_malformed(draw: st.DataObject) -> None:
    whole = encode_group_value(GROUP)
    cut = draw.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(MalformedMessage):
        decode_group_value(whole[:cut])


@pytest.mark.parametrize(
    "value",
    [
        GroupValue("consumer", -1, "range", "m-1", 0, (MEMBER,)),
        GroupValue("consumer", 1, None, "m-1", 0, (MEMBER,)),
        GroupValue("consumer", 1, "range", "m-1", 0, (MEMBER, MEMBER)),
    ],
)
def test_a_group_that_nobody_could_have_written_is_malformed(value: GroupValue) -> None:
    with pytest.raises(MalformedMessage):
        decode_group_value(encode_group_value(value))


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\3\0\1g", b"\xff\xff", b"\0\2\0\1g!"])
def test_a_key_of_another_kind_is_malformed(key: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_key(key)
