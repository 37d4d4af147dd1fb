"""The ASGI application: finds the route, counts, and turns problems into documents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any, Final
from urllib.parse import urlsplit

from nexus.observe.logs import get_logger
from nexus.observe.metrics import Counter, Histogram
from nexus.proxy.errors import MethodNotAllowed, OtherOrigin
from nexus.proxy.http import Gone, Receive, Request, Response, Send, problem_response
from nexus.proxy.proxy import Proxy
from nexus.proxy.route import Route
from nexus.proxy.table import ROUTES
from nexus.web.problems import NotFound, Problem

_GONE_STATUS: Final = 499
_PREFLIGHT_S: Final = 600

log = get_logger(__name__)


class App:
    """Serves one proxy."""

    def __init__(self, proxy: Proxy, routes: Iterable[Route] = ROUTES) -> None:
        self._proxy = proxy
        self._routes: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._routes.setdefault(route.path, {})[route.method] = route
        self._seconds: dict[str, Histogram] = {}
        self._counts: dict[tuple[str, int], Counter] = {}

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        began = perf_counter()
        request = Request(scope, receive, self._proxy.settings.body_bytes)
        self._proxy.active += 1
        status = _GONE_STATUS
        try:
            answer = await self._answer(request)
            status = answer.status
            await answer(receive, send, head_only=request.method == "HEAD")
        except Gone:
            pass
        finally:
            self._proxy.active -= 1
            self._count(request.path, status, perf_counter() - began)

    async def _answer(self, request: Request) -> Any:
        try:
            origin = self._allowed_origin(request)
            route = self._find(request, origin)
            if isinstance(route, Response):
                return route
            answer = await route.handler(self._proxy, request, route.checked(request))
            if origin is not None:
                answer.allow(origin)
        except Problem as problem:
            return problem_response(problem, request.path)
        except (Gone, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("a request failed", path=request.path)
            return problem_response(Problem("the proxy's log says more"), request.path)
        return answer

    def _find(self, request: Request, origin: str | None) -> Route | Response:
        methods = self._routes.get(request.path)
        if methods is None:
            raise NotFound(f"there is no {request.path[:200]}; see /openapi.json")
        method = "GET" if request.method == "HEAD" else request.method
        route = methods.get(method)
        if route is not None:
            return route
        if method == "OPTIONS" and origin is not None:
            return _preflight(origin, methods)
        allowed = ", ".join([*methods, "HEAD"] if "GET" in methods else methods)
        raise MethodNotAllowed(f"{request.path} has {allowed}", allowed)

    def _allowed_origin(self, request: Request) -> str | None:
        """A page of another site, open in somebody's browser, must not reach us unasked."""
        origin = request.header(b"origin")
        if origin is None or urlsplit(origin).netloc == request.header(b"host"):
            return None
        if origin not in self._proxy.settings.origins:
            raise OtherOrigin(f"pages of {origin[:200]} may not; see proxy.origins")
        return origin

    def _count(self, path: str, status: int, seconds: float) -> None:
        name = path if path in self._routes else "other"
        count = self._counts.get((name, status))
        if count is None:
            count = self._proxy.metrics.requests.labels(route=name, status=status)
            self._counts[name, status] = count
            self._seconds[name] = self._proxy.metrics.seconds.labels(route=name)
        count.inc()
        self._seconds[name].observe(seconds)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._proxy.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._proxy.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _preflight(origin: str, methods: Iterable[str]) -> Response:
    answer = Response(b"", 204)
    answer.allow(
        origin,
        {
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Allow-Headers": "Content-Type, Idempotency-Key",
            "Access-Control-Max-Age": str(_PREFLIGHT_S),
        },
    )
    return answer
