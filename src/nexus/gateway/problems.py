"""Problem documents (RFC 9457): what was wrong, with which parameter, as JSON."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from nexus.gateway.errors import Away, NotOffered, TooMuchAsked
from nexus.gateway.live.errors import LiveError
from nexus.store.errors import BadKey, QueryError, StoreAway, TooMuch, Unsupported
from nexus.web.problems import MEDIA_TYPE, BadParameter, Fault, Overloaded, Problem, content

_FOUND_MAX: Final = 100


def problem_response(problem: Problem, path: str) -> Response:
    """The document of a problem, with its status."""
    body = orjson.dumps(problem.document(path))
    return Response(body, problem.status, problem.headers(), MEDIA_TYPE)


def translated(error: Exception) -> Problem:
    """What the store's and the live stream's errors mean to a client."""
    if isinstance(error, StoreAway):
        return Away(str(error))
    if isinstance(error, TooMuch):
        return TooMuchAsked(str(error))
    if isinstance(error, Unsupported):
        return NotOffered(str(error))
    if isinstance(error, BadKey):
        return BadParameter.of("cursor", "is damaged; hand back next_cursor as it was given")
    if isinstance(error, LiveError):
        return Overloaded(str(error))
    return error if isinstance(error, Problem) else Problem("the gateway's log says more")


def install(app: FastAPI) -> None:
    """Every error that is raised on purpose becomes a problem document."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(QueryError, _on_problem)
    app.add_exception_handler(LiveError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)


async def _on_problem(request: Request, error: Exception) -> Response:
    return problem_response(translated(error), request.url.path)


async def _on_http(request: Request, error: Exception) -> Response:
    """What the framework refuses: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = f"{request.method} {request.url.path}: {error.detail}"
    kind = status.phrase.lower().replace(" ", "-")
    said = content(kind, status.phrase, status, detail, request.url.path)
    headers = {"Cache-Control": "no-store", **(error.headers or {})}
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = "GET, HEAD"
    return Response(orjson.dumps({**said, "errors": []}), status, headers, MEDIA_TYPE)


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    known = _parameters_of(request)
    faults = [_fault(said, known) for said in error.errors()]
    detail = "; ".join(f"{fault.parameter}: {fault.message}" for fault in faults)
    return problem_response(BadParameter(detail, faults), request.url.path)


def refuse_repeated(request: Request) -> None:
    """A parameter that takes one value and was given twice has no clear meaning."""
    several = _lists_of(request)
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name in seen and name not in several:
            raise BadParameter.of(name[:_FOUND_MAX], "was given twice")
        seen.add(name)


def _fault(said: dict[str, Any], known: Sequence[str]) -> Fault:
    place = [str(part) for part in said["loc"] if part not in ("query", "path")]
    name = (place[0] if place else "request")[:_FOUND_MAX]
    if said["type"] == "extra_forbidden":
        return Fault(name, f"is not a parameter of this{_nearest(name, known)}")
    reason = said.get("ctx", {}).get("error")
    message = str(reason) if isinstance(reason, ValueError) else _lowered(said["msg"])
    found = said.get("input")
    shown = f" (found {found[:_FOUND_MAX]!r})" if isinstance(found, str) else ""
    return Fault(name, message + shown)


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; it takes {', '.join(known)}" if known else "; it takes none"


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _query_model(request: Request) -> Any:
    """The model of the parameters of the endpoint that was found."""
    route = request.scope.get("route")
    dependant = getattr(route, "dependant", None)
    fields = dependant.query_params if dependant else []
    return getattr(fields[0].field_info, "annotation", None) if fields else None


def _parameters_of(request: Request) -> list[str]:
    return list(getattr(_query_model(request), "model_fields", {}))


def _lists_of(request: Request) -> set[str]:
    fields = getattr(_query_model(request), "model_fields", {})
    return {name for name, field in fields.items() if "list" in str(field.annotation)}
