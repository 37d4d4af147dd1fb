"""FindCoordinator: which broker answers for a group. Versions 0 to 3.

Whoever is served by a proxy is told that it is this one, as soon as there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.cluster.partition_state import NOBODY
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

GROUP: Final = 0


async def handle(
    broker: Broker, request: Request, body: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Name the leader of the group's partition.

    A transaction's coordinator does not exist, which ends the asking.
    """
    if body.key_type != GROUP:
        return FindCoordinatorResponse(
            error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            error_message="transactions are not supported",
            node_id=-1,
            port=-1,
        )
    leader = await broker.groups.coordinator_of(body.key)
    if broker.router.owners.is_proxy and leader != NOBODY:
        leader = broker.settings.broker.id
    for node in broker.nodes_for(request.connection):
        if node.id == leader:
            return FindCoordinatorResponse(node_id=node.id, host=node.host, port=node.port)
    return FindCoordinatorResponse(
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, port=-1
    )
