"""DescribeGroups: a group's state and members. Versions 0 to 5; an unknown group is "Dead"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.groups import GroupDescription
from nexus.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(
    broker: Broker, request: Request, body: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Describe each group that is named."""
    groups = []
    for group_id in body.groups:
        runner = await broker.groups.runner_for(group_id)
        groups.append(_described(runner.coordinator.describe_group(group_id)))
    return DescribeGroupsResponse(groups=groups)


def _described(group: GroupDescription) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=m.member_id,
                group_instance_id=m.group_instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                member_metadata=m.metadata,
                member_assignment=m.assignment,
            )
            for m in group.members
        ],
    )
