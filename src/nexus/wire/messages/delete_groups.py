"""DeleteGroups (key 42): deletes groups that have no members, and their offsets.

Version 2 has flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import Kind, array, int16, int32, message, string, structure


@message("0-2", flexible="2+")
class DeleteGroupsRequest:
    """Groups to delete."""

    groups_names: list[str] = array(Kind.STRING)


@structure
class DeletableGroupResult:
    """One group's outcome."""

    group_id: str = string()
    error_code: int = int16()


@message("0-2", flexible="2+")
class DeleteGroupsResponse:
    """Which groups were deleted."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
