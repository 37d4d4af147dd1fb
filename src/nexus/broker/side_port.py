"""The HTTP side port: /health for load balancers and people, /metrics for Prometheus."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nexus.observe.health import disk, memory
from nexus.observe.http import JSON, Response, SidePort

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def side_port(broker: Broker) -> SidePort:
    """The side port of a broker."""
    own = broker.settings.broker

    def health() -> Response:
        facts = {
            "status": "ready" if broker.is_ready else "live",
            "live": True,
            "ready": broker.is_ready,
            "partitions": sum(1 for _ in broker.topics.partitions()),
            "partitions_offline": [
                f"{p.topic}/{p.index}: {p.log.failure}"
                for p in broker.topics.partitions()
                if p.log.failure is not None
            ],
            "connections": len(broker.server.connections),
            "disk": disk(own.data_dir),
            "memory": memory(),
        }
        return Response(200 if broker.is_ready else 503, JSON, json.dumps(facts).encode() + b"\n")

    async def metrics() -> Response:
        # Read on the event loop, where nothing changes meanwhile; written out on a thread.
        snapshot = broker.metrics.registry.snapshot()
        from nexus.observe.exposition import CONTENT_TYPE, encode  # noqa: PLC0415 - slow to load

        return Response(200, CONTENT_TYPE, await broker.off_loop(encode, snapshot))

    return SidePort(own.http_host, own.http_port, {"/health": health, "/metrics": metrics})
