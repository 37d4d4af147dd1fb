"""/api/v1/telemetry: readings of the fleet."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from nexus.gateway.answers import telemetry as answers
from nexus.gateway.queries.models import LatestQuery, SummaryQuery, TelemetryQuery
from nexus.gateway.routes import PREFIX
from nexus.gateway.routes.documented import listing
from nexus.gateway.routes.serving import lasts, served
from nexus.gateway.schemas import models

router = APIRouter(prefix=PREFIX, tags=["Readings"])


@router.get(
    "/telemetry",
    response_model=models.RawReadings | models.RolledUp | models.SeriesList | models.GroupList,
    responses=listing(),
)
async def telemetry(request: Request, query: Annotated[TelemetryQuery, Query()]) -> Response:
    """Readings of any GPUs over a span of time, raw or by steps, or lines of groups of them."""
    return await served(
        request,
        lambda ask: answers.fleet_telemetry(ask, query),
        lasts(query.start_time, query.end_time),
    )


@router.get(
    "/telemetry/latest",
    response_model=models.ReadingList | models.LatestInColumns,
    responses=listing(),
)
async def latest(request: Request, query: Annotated[LatestQuery, Query()]) -> Response:
    """The last reading of each series."""
    return await served(request, lambda ask: answers.latest(ask, query), lasts(query.since))


@router.get("/telemetry/summary", response_model=models.SummaryList, responses=listing())
async def summary(request: Request, query: Annotated[SummaryQuery, Query()]) -> Response:
    """What readings amount to: count, min, max, mean and percentiles by any grouping."""
    return await served(
        request, lambda ask: answers.summary(ask, query), lasts(query.start_time, query.end_time)
    )
