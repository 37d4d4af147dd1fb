"""What the gateway counts, under names that begin with `nexus_gateway_`."""

from __future__ import annotations

from nexus.gateway.pool import Pool
from nexus.observe.metrics import Registry


class GatewayMetrics:
    """Requests by route; what the pool is doing."""

    def __init__(self, pool: Pool) -> None:
        self.registry = Registry()
        self.requests = self.registry.counter(
            "nexus_gateway_requests", "Requests that were answered.", ("route", "status")
        )
        self.seconds = self.registry.histogram(
            "nexus_gateway_request_seconds", "How long an answer took.", ("route",)
        )
        self.bytes = self.registry.counter(
            "nexus_gateway_response_bytes", "Bytes of answers, as sent.", ("route",)
        )
        self.registry.gauge(
            "nexus_gateway_questions",
            "Questions to the store, at work or waiting for a thread.",
            ("state",),
            collect=lambda: [(("running",), pool.running), (("waiting",), pool.waiting)],
        )
