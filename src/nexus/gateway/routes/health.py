"""/health, /ready and /metrics: what supervisors and Prometheus ask."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from nexus import __version__
from nexus.gateway.caching import NO_STORE
from nexus.gateway.queries.models import NothingAsked
from nexus.gateway.replies import document
from nexus.gateway.routes.documented import Responses, plain
from nexus.gateway.routes.serving import gateway_of
from nexus.gateway.schemas import models
from nexus.observe.health import memory
from nexus.observe.metrics import FamilySnapshot

router = APIRouter(tags=["Operation"])
READY_WITHIN_S: Final = 5.0
Nothing = Annotated[NothingAsked, Query()]
_PROMETHEUS: Responses = {
    200: {
        "description": "Prometheus text.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


@router.get("/health", response_model=models.Health, responses=plain())
async def health(request: Request, query: Nothing) -> Response:
    """The process is alive."""
    gateway = gateway_of(request)
    said = {
        "status": "ok",
        "version": __version__,
        "uptime_s": round(max(gateway.clock() - gateway.began_at, 0.0), 3),
        "memory": memory(),
    }
    return _now(document(said).body, "application/json")


@router.get("/ready", response_model=models.Ready, responses=plain(503, 504))
async def ready(request: Request, query: Nothing) -> Response:
    """The store answers."""
    gateway = gateway_of(request)
    versions = await gateway.pool.call(
        lambda: dict(gateway.store.snapshot().versions), READY_WITHIN_S
    )
    return _now(document({"status": "ready", "tables": versions}).body, "application/json")


@router.get(
    "/metrics",
    response_class=Response,
    responses={**plain(), **_PROMETHEUS},
    operation_id="prometheus_metrics",
)
async def metrics(request: Request, query: Nothing) -> Response:
    """What the gateway counts, for Prometheus."""
    snapshots = gateway_of(request).metrics.registry.snapshot()
    body, content_type = await asyncio.to_thread(_exposition, snapshots)
    return _now(body, content_type)


def _exposition(snapshots: list[FamilySnapshot]) -> tuple[bytes, str]:
    from nexus.observe.exposition import CONTENT_TYPE, encode  # noqa: PLC0415 - slow to load

    return encode(snapshots), CONTENT_TYPE


def _now(body: bytes, content_type: str) -> Response:
    return Response(body, headers={**NO_STORE, "Content-Type": content_type})
