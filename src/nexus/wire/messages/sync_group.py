"""SyncGroup (key 14): hands the leader's assignment to every member of the generation.

Version 3 adds static members, 4 flexible fields, 5 the protocol's type and name.
"""

from __future__ import annotations

from nexus.wire.fields import array, binary, int16, int32, message, string, structure


@structure
class SyncGroupRequestAssignment:
    """One member's assignment."""

    member_id: str = string()
    assignment: bytes = binary()


@message("0-5", flexible="4+")
class SyncGroupRequest:
    """A member's wish for its assignment; the leader's carries everyone's."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message("0-5", flexible="4+")
class SyncGroupResponse:
    """The member's own assignment."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignment: bytes = binary()
