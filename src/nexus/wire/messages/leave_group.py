"""LeaveGroup (key 13): takes members out of a group at once.

Versions 0-2 name one member; version 3 names several, static ones too; 4 has flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import array, int16, int32, message, string, structure


@structure
class MemberIdentity:
    """A member, by its id or its static name."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default=None)


@message("0-4", flexible="4+")
class LeaveGroupRequest:
    """Who leaves."""

    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


@structure
class MemberResponse:
    """One member's outcome."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default=None)
    error_code: int = int16()


@message("0-4", flexible="4+")
class LeaveGroupResponse:
    """Who left."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
