"""DescribeGroups (key 15): shows groups' states, members and assignments.

Version 3 adds authorized operations, 4 static members, 5 flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import Kind, array, binary, boolean, int16, int32, message, string, structure


@message("0-5", flexible="5+")
class DescribeGroupsRequest:
    """Which groups to show."""

    groups: list[str] = array(Kind.STRING)
    include_authorized_operations: bool = boolean("3+")


@structure
class DescribedGroupMember:
    """A member and what it was assigned."""

    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


@structure
class DescribedGroup:
    """A group and its members."""

    error_code: int = int16()
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-(2**31))


@message("0-5", flexible="5+")
class DescribeGroupsResponse:
    """The groups."""

    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup)
