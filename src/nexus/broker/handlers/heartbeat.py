"""Heartbeat: a member says that it is alive, and learns of a rebalance. Versions 0 to 4.

A coordinator that still loads its groups takes every member's word, as Kafka does: some clients
give up when they are told that it loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.groups import HeartbeatRequest as Heartbeat
from nexus.groups import HeartbeatResult
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(broker: Broker, request: Request, body: HeartbeatRequest) -> HeartbeatResponse:
    """Renew the member's session."""
    beat = Heartbeat(body.group_id, body.generation_id, body.member_id, body.group_instance_id)
    result: HeartbeatResult = await broker.groups.ask(
        body.group_id, lambda c: lambda token, now: c.heartbeat(token, beat, now)
    )
    is_loading = result.error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else result.error)
