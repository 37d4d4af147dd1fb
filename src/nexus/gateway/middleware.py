"""Around every answer: security headers, HEAD for every GET, counting, and what nobody foresaw."""

from __future__ import annotations

import time
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nexus.gateway.metrics import GatewayMetrics
from nexus.gateway.problems import problem_response, translated
from nexus.observe.logs import get_logger

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

log = get_logger(__name__)


class Around:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, metrics: GatewayMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        sent = _Sent(send)
        if scope["method"] == "HEAD":
            head = _HeadOnly(receive, sent)
            scope, receive, send = {**scope, "method": "GET"}, head.receive, head.send
        else:
            send = sent
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            log.exception("a request failed", path=scope["path"])
            if not sent.status:
                await problem_response(translated(error), scope["path"])(scope, receive, send)
        finally:
            self._count(scope, sent, time.perf_counter() - began)

    def _count(self, scope: Scope, sent: _Sent, seconds: float) -> None:
        route = getattr(scope.get("route"), "path_format", "other")
        self._metrics.requests.labels(route=route, status=sent.status).inc()
        self._metrics.bytes.labels(route=route).inc(sent.bytes)
        if not sent.endless:
            self._metrics.seconds.labels(route=route).observe(seconds)


class _Sent:
    """Passes an answer on with its headers, and remembers what it was."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.bytes = 0
        self.endless = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            self.endless = headers.get("content-type", "").startswith("text/event-stream")
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)


class _HeadOnly:
    """Lets the head of an answer through; to the application the client then seems gone."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._done = False

    async def receive(self) -> Message:
        return {"type": "http.disconnect"} if self._done else await self._receive()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._send(message)
        elif not self._done:
            self._done = True
            await self._send(_end())


def _end() -> dict[str, Any]:
    return {"type": "http.response.body", "body": b"", "more_body": False}
