"""LeaveGroup: members leave, and the rest rebalance. Versions 0 to 4; several at once since 3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.groups import LeaveRequest, LeaveResult, LeavingMember
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

SEVERAL_SINCE: Final = 3


async def handle(broker: Broker, request: Request, body: LeaveGroupRequest) -> LeaveGroupResponse:
    """Let them go."""
    leaving = [LeavingMember(m.member_id, m.group_instance_id) for m in body.members]
    if request.version < SEVERAL_SINCE:
        leaving = [LeavingMember(body.member_id)]
    leave = LeaveRequest(body.group_id, tuple(leaving))
    result: LeaveResult = await broker.groups.ask(
        body.group_id, lambda c: lambda token, now: c.leave(token, leave, now)
    )
    if request.version < SEVERAL_SINCE:
        of_member = result.members[0].error if result.members else ErrorCode.NONE
        return LeaveGroupResponse(error_code=result.error or of_member)
    return LeaveGroupResponse(
        error_code=result.error,
        members=[
            MemberResponse(
                member_id=m.member_id, group_instance_id=m.group_instance_id, error_code=m.error
            )
            for m in result.members
        ],
    )
