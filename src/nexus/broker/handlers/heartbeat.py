"""Heartbeat: a member says that it is alive, and learns of a rebalance. Versions 0 to 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.groups import HeartbeatRequest as Heartbeat
from nexus.groups import HeartbeatResult
from nexus.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(broker: Broker, request: Request, body: HeartbeatRequest) -> HeartbeatResponse:
    """Renew the member's session."""
    beat = Heartbeat(body.group_id, body.generation_id, body.member_id, body.group_instance_id)
    result: HeartbeatResult = await broker.groups.ask(
        body.group_id, lambda c: lambda token, now: c.heartbeat(token, beat, now)
    )
    return HeartbeatResponse(error_code=result.error)
