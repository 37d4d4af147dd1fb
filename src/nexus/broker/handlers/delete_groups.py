"""DeleteGroups: forget groups that have no members, with their offsets. Versions 0 to 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.groups import DeleteGroupResult
from nexus.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(
    broker: Broker, request: Request, body: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Delete each group that is named."""
    return DeleteGroupsResponse(results=[await _delete(broker, g) for g in body.groups_names])


async def _delete(broker: Broker, group_id: str) -> DeletableGroupResult:
    result: DeleteGroupResult = await broker.groups.ask(
        group_id, lambda c: lambda token, now: c.delete_group(token, group_id, now)
    )
    return DeletableGroupResult(group_id=group_id, error_code=result.error)
