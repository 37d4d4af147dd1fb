"""The API's description (OpenAPI 3.1), made from the table that serves it."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import orjson

from nexus import __version__
from nexus.proxy import schemas
from nexus.proxy.route import Route
from nexus.web.problems import MEDIA_TYPE

_ABOUT = (
    "The HTTP front door of a Nexus queue: write messages, take them one by one, acknowledge them."
    " Every instance answers for all of them."
)


def description_of(routes: Iterable[Route]) -> bytes:
    """The whole document as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return orjson.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "Nexus proxy", "version": __version__, "description": _ABOUT},
            "paths": paths,
            "components": {"schemas": {"Problem": schemas.PROBLEM}},
        }
    )


def _operation(route: Route) -> dict[str, Any]:
    name = f"{route.method.lower()}_{route.path.strip('/').replace('/', '_').replace('.', '_')}"
    answers: dict[str, Any] = {
        str(route.status): {
            "description": "As asked.",
            "content": {route.answer_type: {"schema": route.answer}},
        }
    }
    if any(param.name == "acks" for param in route.params):
        accepted = {"description": "Sent; nobody waits for the answer."}
        answers["202"] = {**accepted, "content": {route.answer_type: {"schema": route.answer}}}
    problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status in sorted({400, 503, *route.problems}):
        answers[str(status)] = {"description": HTTPStatus(status).phrase, "content": problem}
    said: dict[str, Any] = {
        "operationId": name,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [_parameter(route, at) for at in range(len(route.params))],
        "responses": answers,
    }
    if route.bodies:
        content = {kind: {"schema": schema} for kind, schema in route.bodies.items()}
        said["requestBody"] = {"required": True, "content": content}
    return said


def _parameter(route: Route, at: int) -> dict[str, Any]:
    param = route.params[at]
    return {
        "name": param.name,
        "in": param.place,
        "required": param.required,
        "description": param.meaning,
        "schema": param.schema,
    }
