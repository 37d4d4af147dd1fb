"""The records of `__consumer_offsets`, byte for byte in Kafka's own formats.

Written: offset keys v1 with values v3 (v1 when they carry their own expiry), group keys v2 with
values v3. Read: every version of those up to v4; anything else is a `MalformedMessage`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from nexus.groups.reader import Reader
from nexus.wire.errors import MalformedMessage

_OFFSET_KEY_VERSIONS = (0, 1)
_GROUP_KEY_VERSION = 2
_VALUE_VERSION_MAX = 4
_FLEXIBLE_FROM = 4
_MEMBER_BYTES_MIN = 8


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Names a committed position."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Names a group's metadata."""

    group_id: str


@dataclass(frozen=True, slots=True)
class OffsetValue:
    """A committed position; `expire_ms` is -1 unless the client chose its own retention."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1


@dataclass(frozen=True, slots=True)
class MemberValue:
    """A member of a generation with what it subscribed to and what it was assigned."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupValue:
    """A generation of a group; without members the group is empty."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_ms: int
    members: tuple[MemberValue, ...] = ()


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return b"\0\1" + _string(group_id) + _string(topic) + struct.pack(">i", partition)


def encode_group_key(group_id: str) -> bytes:
    return b"\0\2" + _string(group_id)


def encode_offset_value(value: OffsetValue) -> bytes:
    # Only version 1 has room for an expiry, and it has none for the leader epoch.
    if value.expire_ms >= 0:
        head = struct.pack(">hq", 1, value.offset)
        return head + _string(value.metadata) + struct.pack(">qq", value.commit_ms, value.expire_ms)
    head = struct.pack(">hqi", 3, value.offset, value.leader_epoch)
    return head + _string(value.metadata) + struct.pack(">q", value.commit_ms)


def encode_group_value(value: GroupValue) -> bytes:
    parts = [
        b"\0\3",
        _string(value.protocol_type),
        struct.pack(">i", value.generation),
        _nullable(value.protocol),
        _nullable(value.leader),
        struct.pack(">qi", value.state_ms, len(value.members)),
    ]
    for member in value.members:
        parts += _member_parts(member)
    return b"".join(parts)


def _member_parts(member: MemberValue) -> Sequence[bytes]:
    return (
        _string(member.member_id),
        _nullable(member.group_instance_id),
        _string(member.client_id),
        _string(member.client_host),
        struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
        struct.pack(">i", len(member.subscription)),
        member.subscription,
        struct.pack(">i", len(member.assignment)),
        member.assignment,
    )


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _nullable(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _string(text)


def decode_key(data: bytes) -> OffsetKey | GroupKey:
    reader = Reader(data)
    version = reader.int16()
    if version in _OFFSET_KEY_VERSIONS:
        key: OffsetKey | GroupKey = OffsetKey(reader.string(), reader.string(), reader.int32())
    elif version == _GROUP_KEY_VERSION:
        key = GroupKey(reader.string())
    else:
        raise MalformedMessage(f"no offsets key has version {version}")
    reader.end()
    return key


def decode_offset_value(data: bytes) -> OffsetValue:
    reader, version = _versioned(data)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_ms = reader.int64()
    expire_ms = reader.int64() if version == 1 else -1
    reader.tags()
    reader.end()
    return OffsetValue(offset, leader_epoch, metadata, commit_ms, expire_ms)


def decode_group_value(data: bytes) -> GroupValue:
    reader, version = _versioned(data)
    protocol_type = reader.string()
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    state_ms = reader.int64() if version >= 2 else -1
    count = reader.count(_MEMBER_BYTES_MIN)
    members = tuple(_read_member(reader, version) for _ in range(count))
    reader.tags()
    reader.end()
    value = GroupValue(protocol_type, generation, protocol, leader, state_ms, members)
    _check_group(value)
    return value


def _check_group(value: GroupValue) -> None:
    """Refuse what no coordinator writes and a group could not live with."""
    if value.generation < 0:
        raise MalformedMessage(f"a group has generation {value.generation}")
    if value.members and value.protocol is None:
        raise MalformedMessage("a group with members has no protocol")
    instances = [m.group_instance_id for m in value.members if m.group_instance_id is not None]
    for ids in ([m.member_id for m in value.members], instances):
        if len(set(ids)) != len(ids):
            raise MalformedMessage("two members of a group have one id")


def _read_member(reader: Reader, version: int) -> MemberValue:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_ms = reader.int32() if version >= 1 else -1
    session_ms = reader.int32()
    subscription, assignment = reader.data(), reader.data()
    reader.tags()
    return MemberValue(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_ms if rebalance_ms < 0 else rebalance_ms,
        session_ms,
        subscription,
        assignment,
    )


def _versioned(data: bytes) -> tuple[Reader, int]:
    reader = Reader(data)
    version = reader.int16()
    if not 0 <= version <= _VALUE_VERSION_MAX:
        raise MalformedMessage(f"no offsets value has version {version}")
    reader.flexible = version >= _FLEXIBLE_FROM
    return reader, version
