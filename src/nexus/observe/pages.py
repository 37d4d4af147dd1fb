"""Pages that every part's side port can offer: Prometheus metrics, and facts as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus

from nexus.observe.http import JSON, Response, Route
from nexus.observe.metrics import FamilySnapshot, Registry


def metrics_page(registry: Registry) -> Route:
    """`/metrics`: values are taken on the event loop, the text is made in a worker thread."""

    async def page() -> Response:
        return await asyncio.to_thread(_exposition, registry.snapshot())

    return page


def json_page(facts: Callable[[], tuple[bool, Mapping[str, object]]]) -> Route:
    """What `facts` says, as JSON: 200 when it says all is well, 503 when it does not."""

    def page() -> Response:
        well, values = facts()
        status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(status, JSON, json.dumps(values, default=str).encode() + b"\n")

    return page


def _exposition(snapshots: Sequence[FamilySnapshot]) -> Response:
    from nexus.observe.exposition import CONTENT_TYPE, encode  # noqa: PLC0415 - slow to load

    return Response(HTTPStatus.OK, CONTENT_TYPE, encode(snapshots))
