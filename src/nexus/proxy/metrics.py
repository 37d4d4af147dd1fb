"""What the proxy counts, under names that begin with `nexus_proxy_`."""

from __future__ import annotations

from nexus.observe.metrics import Registry
from nexus.proxy.topology import Topology


class ProxyMetrics:
    """Requests by route; brokers and their circuits; what is under way."""

    def __init__(self, topology: Topology) -> None:
        self.registry = Registry()
        self.requests = self.registry.counter(
            "nexus_proxy_requests", "Requests that were answered.", ("route", "status")
        )
        self.seconds = self.registry.histogram(
            "nexus_proxy_request_seconds", "How long an answer took.", ("route",)
        )
        self.messages = self.registry.counter(
            "nexus_proxy_messages", "Messages by what became of them.", ("what",)
        )
        self.registry.gauge(
            "nexus_proxy_broker_up",
            "1 where the broker answers.",
            ("broker",),
            collect=lambda: [((b.name,), float(b.is_well)) for b in topology.all_brokers()],
        )
        self.registry.gauge(
            "nexus_proxy_broker_errors",
            "Requests that a broker did not answer.",
            ("broker",),
            collect=lambda: [((b.name,), b.errors) for b in topology.all_brokers()],
        )
        self.registry.gauge(
            "nexus_proxy_partition_moves",
            "How often a partition was seen to move.",
            (),
            collect=lambda: [((), topology.moves)],
        )
