"""SyncGroup: the leader hands in assignments, every member gets its own. Versions 0 to 5."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.groups import SyncRequest, SyncResult
from nexus.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(broker: Broker, request: Request, body: SyncGroupRequest) -> SyncGroupResponse:
    """Wait for the assignment."""
    sync = SyncRequest(
        group_id=body.group_id,
        generation_id=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocol_name=body.protocol_name,
        assignments=tuple((a.member_id, a.assignment) for a in body.assignments),
    )
    result: SyncResult = await broker.groups.ask(
        body.group_id, lambda c: lambda token, now: c.sync(token, sync, now)
    )
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
