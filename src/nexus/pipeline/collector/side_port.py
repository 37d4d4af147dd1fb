"""The collector's HTTP side port: health, metrics and status."""

from __future__ import annotations

from nexus.observe.health import facts
from nexus.observe.http import SidePort
from nexus.observe.pages import json_page, metrics_page
from nexus.pipeline.collector.metrics import CollectorRegistry
from nexus.pipeline.collector.report import health_of, status_of
from nexus.pipeline.collector.run import Collector
from nexus.settings.collector import CollectorSection


def side_port(collector: Collector, own: CollectorSection) -> SidePort:
    """/health answers 503 while readings that wait are not being stored."""
    look = collector.progress.view

    def health() -> tuple[bool, dict[str, object]]:
        well, said = health_of(look(), own.stale_after_ms / 1000)
        return well, {**said, **facts(own.data_dir)}

    routes = {
        "/health": json_page(health),
        "/metrics": metrics_page(CollectorRegistry(look)),
        "/api/v1/status": json_page(lambda: (True, status_of(look()))),
    }
    return SidePort(own.http_host, own.http_port, routes)
