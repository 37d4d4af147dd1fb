"""ListGroups: every group of this broker. Versions 0 to 4; filtered by state since 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


def handle(broker: Broker, request: Request, body: ListGroupsRequest) -> ListGroupsResponse:
    """List them all; a coordinator that still loads makes the answer retriable."""
    worst = ErrorCode.NONE
    groups = []
    for coordinator in broker.groups.coordinators():
        error, listed = coordinator.list_groups(body.states_filter)
        worst = worst or error
        groups += [
            ListedGroup(group_id=g.group_id, protocol_type=g.protocol_type, group_state=g.state)
            for g in listed
        ]
    return ListGroupsResponse(error_code=worst, groups=groups)
