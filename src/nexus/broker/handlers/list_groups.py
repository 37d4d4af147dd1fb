"""ListGroups: every group of this broker. Versions 0 to 5; filtered by state in 4, by type in 5.

A share group has no coordinator that knows all of it: whoever leads a partition of its topics,
keeps its state or has its members lists it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.broker.sharing.overview import share_groups
from nexus.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

CLASSIC: Final = "classic"
SHARE: Final = "share"


def handle(broker: Broker, request: Request, body: ListGroupsRequest) -> ListGroupsResponse:
    """List them all; a coordinator that still loads makes the answer retriable."""
    types = {name.lower() for name in body.types_filter} or {CLASSIC, SHARE}
    answer = ListGroupsResponse(groups=[])
    if CLASSIC in types:
        _add_classic(broker, body.states_filter, answer)
    if SHARE in types:
        wanted = {state.lower() for state in body.states_filter}
        answer.groups += [
            ListedGroup(group_id=name, protocol_type=SHARE, group_state=state, group_type=SHARE)
            for name, state in share_groups(broker.sharing).items()
            if not wanted or state.lower() in wanted
        ]
    return answer


def _add_classic(broker: Broker, states: list[str], answer: ListGroupsResponse) -> None:
    for coordinator in broker.groups.coordinators():
        error, listed = coordinator.list_groups(states)
        answer.error_code = answer.error_code or error
        answer.groups += [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=CLASSIC,
            )
            for group in listed
        ]
