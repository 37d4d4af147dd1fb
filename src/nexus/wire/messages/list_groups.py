"""ListGroups (key 16): lists the groups that this broker coordinates.

Version 3 has flexible fields, 4 a filter by state and the states, 5 the same for types.
"""

from __future__ import annotations

from nexus.wire.fields import Kind, array, int16, int32, message, string, structure


@message("0-5", flexible="3+")
class ListGroupsRequest:
    """Which groups to list."""

    states_filter: list[str] = array(Kind.STRING, "4+")
    types_filter: list[str] = array(Kind.STRING, "5+")


@structure
class ListedGroup:
    """A group's name, type and state."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


@message("0-5", flexible="3+")
class ListGroupsResponse:
    """The groups."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
