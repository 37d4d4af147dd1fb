"""/api/v1/live: readings as they come into the queue, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.types import Receive, Scope, Send

from nexus.gateway.asking import selected
from nexus.gateway.errors import NotAcceptable
from nexus.gateway.metric_names import metric_names
from nexus.gateway.queries.models import LiveQuery
from nexus.gateway.routes import PREFIX
from nexus.gateway.routes.documented import plain
from nexus.gateway.routes.pipeline import WITHOUT_QUEUE
from nexus.gateway.routes.serving import gateway_of
from nexus.settings.units import parse_duration_ms
from nexus.web.event_stream import MEDIA_TYPE, event_stream
from nexus.web.problems import NotFound

router = APIRouter(prefix=PREFIX, tags=["Readings"])
_EVENTS = {"description": "Events without an end.", "content": {MEDIA_TYPE: {"schema": {}}}}


class EventStream(Response):
    """A response that goes on until its client or the gateway ends it."""

    media_type = MEDIA_TYPE

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        super().__init__()
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await event_stream(self._events, receive, send)


@router.get(
    "/live",
    response_class=Response,
    responses={200: _EVENTS, **plain(404, 503)},
)
async def live(
    request: Request,
    query: Annotated[LiveQuery, Query()],
    last_event_id: Annotated[str, Header(description="The `id` of the last event seen.")] = "",
) -> Response:
    """Readings within a moment of the queue's acknowledgement, by server-sent events.

    Events: `readings` (columns), `gap`, `status`; a comment comes at least every 10 s. Only exact
    uuids select here. `Last-Event-ID` replays up to 60 s; what is further back is told as a `gap`.
    """
    hub = gateway_of(request).live
    _check_accept(request.headers.get("accept"))
    if hub is None:
        raise NotFound(WITHOUT_QUEUE)
    interval_s = parse_duration_ms(query.interval) / 1000
    which = selected(query, metric_names(query.metric))
    events = await hub.subscribe(which, last_event_id or None, interval_s=interval_s)
    return EventStream(events)


def _check_accept(header: str | None) -> None:
    taken = ("text/event-stream", "text/*", "*/*")
    if header and not any(name in header.lower() for name in taken):
        raise NotAcceptable(f"live readings come as {MEDIA_TYPE}; Accept asks for {header[:200]}")
