"""The streamer's HTTP side port: health, metrics, status, and uploads."""

from __future__ import annotations

from nexus.observe.health import facts
from nexus.observe.http import SidePort
from nexus.observe.pages import json_page, metrics_page
from nexus.settings.streamer import StreamerSection
from nexus.streamer.engine import Engine
from nexus.streamer.metrics import StreamerRegistry
from nexus.streamer.report import status_of
from nexus.streamer.upload import Uploads


def side_port(engine: Engine, own: StreamerSection) -> SidePort:
    """/health answers 503 while the queue is away: the streamer lives, but nothing arrives."""

    def health() -> tuple[bool, dict[str, object]]:
        away = engine.outbox.is_away
        return not away, {
            "status": "queue away" if away else "ready",
            "live": True,
            "ready": not away,
            "queue": engine.outbox.mode.value,
            "spool_bytes": engine.stats.spool_bytes,
            **facts(engine.path),
        }

    routes = {
        "/health": json_page(health),
        "/metrics": metrics_page(StreamerRegistry(engine)),
        "/api/v1/status": json_page(lambda: (True, status_of(engine))),
    }
    uploads = {"/api/v1/csv/upload": Uploads(engine, own.upload_bytes).route()}
    return SidePort(own.http_host, own.http_port, routes, uploads=uploads)
