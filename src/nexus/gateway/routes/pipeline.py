"""The catalogue, and how the readings get here: quarantine, pipeline, queue."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from nexus.gateway.answers import catalogue
from nexus.gateway.answers import pipeline as answers
from nexus.gateway.answers.quarantine import quarantine as refusals
from nexus.gateway.caching import NO_STORE, Lasting
from nexus.gateway.queries.models import NothingAsked, PageQuery, QuarantineQuery
from nexus.gateway.rendering.forms import JSON_ONLY, accepted
from nexus.gateway.replies import document
from nexus.gateway.routes import PREFIX
from nexus.gateway.routes.documented import listing, plain, single
from nexus.gateway.routes.serving import gateway_of, lasts, served
from nexus.gateway.schemas import models
from nexus.web.problems import NotFound

router = APIRouter(prefix=PREFIX, tags=["Pipeline"])
WITHOUT_QUEUE: Final = "the gateway was started without --queue"


@router.get("/metrics", response_model=models.MetricList, responses=listing())
async def list_metrics(request: Request, query: Annotated[PageQuery, Query()]) -> Response:
    """The metric catalogue: names, units, sources, and what is collected."""
    return await served(request, lambda ask: catalogue.metrics(ask, query), Lasting.VERSIONS)


@router.get("/quarantine", response_model=models.RefusedList, responses=listing())
async def quarantine(request: Request, query: Annotated[QuarantineQuery, Query()]) -> Response:
    """What was refused, and why."""
    return await served(
        request, lambda ask: refusals(ask, query), lasts(query.start_time, query.end_time)
    )


@router.get("/pipeline", response_model=models.Pipeline, responses=single())
async def pipeline(request: Request, query: Annotated[NothingAsked, Query()]) -> Response:
    """The collector's state, rates, lag and batch times, and the tables' sizes."""
    said = gateway_of(request).pipeline.snapshot()
    return await served(request, lambda ask: answers.pipeline(ask, said), forms=JSON_ONLY)


@router.get("/queue", response_model=models.Queue, responses=plain(404, 503, 504))
async def queue(request: Request, query: Annotated[NothingAsked, Query()]) -> Response:
    """Topics, partitions, consumer groups and their lag."""
    gateway = gateway_of(request)
    accepted(request.headers.get("accept"), JSON_ONLY)
    if gateway.queue is None:
        raise NotFound(WITHOUT_QUEUE)
    said = await gateway.queue_pool.call(gateway.queue.snapshot)
    reply = document(said)
    return Response(reply.body, headers={**NO_STORE, "Content-Type": reply.content_type})
