"""JoinGroup: become a member of the next generation. Versions 0 to 7.

Version 4 hands a new member its id first, version 5 knows static members. The answer comes when
the rebalance is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.groups import JoinRequest, JoinResult, MemberProtocol
from nexus.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

MEMBER_ID_REQUIRED_SINCE: Final = 4
NULL_PROTOCOL_SINCE: Final = 7


async def handle(broker: Broker, request: Request, body: JoinGroupRequest) -> JoinGroupResponse:
    """Wait for the generation that this member is part of."""
    join = JoinRequest(
        group_id=body.group_id,
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple(MemberProtocol(p.name, p.metadata) for p in body.protocols),
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        member_id_required=request.version >= MEMBER_ID_REQUIRED_SINCE,
    )
    result: JoinResult = await broker.groups.ask(
        body.group_id, lambda c: lambda token, now: c.join(token, join, now)
    )
    protocol = result.protocol_name
    if protocol is None and request.version < NULL_PROTOCOL_SINCE:
        protocol = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=protocol,
        leader=result.leader,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=m.member_id,
                group_instance_id=m.group_instance_id,
                metadata=m.metadata,
            )
            for m in result.members
        ],
    )
