"""The API's description in OpenAPI, made from the endpoints themselves."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from nexus.gateway.schemas.models import Problem
from nexus.web.problems import MEDIA_TYPE

_REF: Final = "#/components/schemas/{model}"
_FRAMEWORKS_OWN: Final = ("HTTPValidationError", "ValidationError")
TEXT: Final = """GPU fleet telemetry.

Times are inclusive and may be RFC 3339, a number since 1970, or relative (`now-15m`). Lists come
in pages: hand `next_cursor` back as `cursor`; it stays valid while readings arrive. Lists can be
had as JSON, CSV (`Accept: text/csv`) or Arrow (`application/vnd.apache.arrow.stream`). Errors are
problem documents (RFC 9457). HEAD works wherever GET does."""


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of an application's endpoints."""
    document = get_openapi(
        title=app.title, version=app.version, description=TEXT, routes=app.routes
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template=_REF)
    schemas |= {**problem.pop("$defs"), "Problem": problem}
    for name in _FRAMEWORKS_OWN:
        schemas.pop(name, None)
    for operations in document["paths"].values():
        for operation in operations.values():
            _in_our_words(operation)
    return document


def _in_our_words(operation: dict[str, Any]) -> None:
    """Wrong parameters are told by a problem document, and with 400."""
    responses = operation["responses"]
    if MEDIA_TYPE not in responses.get("422", {}).get("content", {MEDIA_TYPE: {}}):
        del responses["422"]
    if responses["200"].get("description") == "Successful Response":
        responses["200"]["description"] = "What was asked for."
    operation["summary"] = operation["description"].partition("\n")[0].removesuffix(".")
