"""The HTTP side port: /health for load balancers and people, /metrics for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.cluster_metrics import cluster_health
from nexus.observe.health import facts
from nexus.observe.http import SidePort
from nexus.observe.pages import json_page, metrics_page

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


def side_port(broker: Broker) -> SidePort:
    """The side port of a broker; /health answers 503 until it is ready and while it stops."""
    own = broker.settings.broker

    def health() -> tuple[bool, dict[str, object]]:
        partitions = list(broker.topics.partitions())
        return broker.is_ready, {
            "status": "ready" if broker.is_ready else "live",
            "live": True,
            "ready": broker.is_ready,
            "partitions": len(partitions),
            "partitions_offline": [
                f"{p.topic}/{p.index}: {p.log.failure}" for p in partitions if p.log.failure
            ],
            "connections": len(broker.server.connections),
            **(cluster_health(broker) if broker.is_shared else {}),
            **facts(own.data_dir),
        }

    routes = {"/health": json_page(health), "/metrics": metrics_page(broker.metrics.registry)}
    return SidePort(own.http_host, own.http_port, routes)
