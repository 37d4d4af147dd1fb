"""DescribeCluster: the brokers and who controls them. Versions 0 to 1.

Whoever is served by a proxy is told of this broker only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

BROKERS: Final = 1


def handle(
    broker: Broker, request: Request, body: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Describe the cluster's brokers; there are no controllers to reach separately."""
    if body.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="only brokers can be described",
            endpoint_type=body.endpoint_type,
        )
    is_proxy = broker.router.owners.is_proxy
    return DescribeClusterResponse(
        cluster_id=broker.settings.cluster.cluster_id,
        controller_id=broker.settings.broker.id if is_proxy else broker.cluster.view.controller,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.id, host=node.host, port=node.port, rack=node.rack or None
            )
            for node in broker.nodes_for(request.connection, only_me=is_proxy)
        ],
    )
