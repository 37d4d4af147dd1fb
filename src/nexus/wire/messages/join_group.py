"""JoinGroup (key 11): enters a group's next generation; answers when all members have.

The member chosen as leader is told the others' metadata, and assigns partitions.

Version 1 adds a rebalance timeout, 4 makes a new member come back with the id it is given, 5 adds
static members, 6 flexible fields, 7 the protocol's type in the answer.
"""

from __future__ import annotations

from nexus.wire.fields import array, binary, int16, int32, message, string, structure


@structure
class JoinGroupRequestProtocol:
    """An assignor that the member can use, with its metadata for it."""

    name: str = string()
    metadata: bytes = binary()


@message("0-7", flexible="6+")
class JoinGroupRequest:
    """A member that wants to be in the next generation."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)


@structure
class JoinGroupResponseMember:
    """A member, as the leader must know it."""

    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = binary()


@message("0-7", flexible="6+")
class JoinGroupResponse:
    """The generation; for its leader, every member's metadata too."""

    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
