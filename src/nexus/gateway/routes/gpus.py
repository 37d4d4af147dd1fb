"""/api/v1/gpus: GPUs and their readings."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from nexus.gateway.answers import gpus as answers
from nexus.gateway.answers import telemetry
from nexus.gateway.caching import Lasting
from nexus.gateway.queries.models import GpusQuery, GpuTelemetryQuery, NothingAsked
from nexus.gateway.rendering.forms import JSON_ONLY
from nexus.gateway.routes import PREFIX
from nexus.gateway.routes.documented import listing, single
from nexus.gateway.routes.serving import lasts, served
from nexus.gateway.schemas import models

router = APIRouter(prefix=PREFIX, tags=["GPUs"])

Uuid = Annotated[
    str,
    Path(
        description="A uuid, or a unique prefix of at least 8 characters.",
        examples=["GPU-5fd4f087"],
    ),
]


@router.get("/gpus", response_model=models.GpuList, responses=listing())
async def list_gpus(request: Request, query: Annotated[GpusQuery, Query()]) -> Response:
    """GPUs and MIG instances as last known, by uuid."""
    return await served(request, lambda ask: answers.list_gpus(ask, query), Lasting.STATES)


@router.get(
    "/gpus/{uuid:path}/telemetry",
    response_model=models.RawReadings | models.RolledUp | models.SeriesList,
    responses=listing(404, 409),
)
async def gpu_telemetry(
    request: Request, uuid: Uuid, query: Annotated[GpuTelemetryQuery, Query()]
) -> Response:
    """One GPU's readings over a span of time, raw or by steps."""
    return await served(
        request,
        lambda ask: telemetry.gpu_telemetry(ask, uuid, query),
        lasts(query.start_time, query.end_time),
    )


@router.get("/gpus/{uuid:path}", response_model=models.GpuDetail, responses=single(404, 409))
async def one_gpu(
    request: Request, uuid: Uuid, query: Annotated[NothingAsked, Query()]
) -> Response:
    """One GPU with its labels, its MIG instances and its last readings."""
    return await served(request, lambda ask: answers.one_gpu(ask, uuid), Lasting.STATES, JSON_ONLY)
