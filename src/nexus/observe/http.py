"""A side port: a few pages over HTTP/1.1 GET for health checks and scrapers, and uploads by POST.

Bounded in connections, request size and time, whoever asks; one request a connection. A body is
handed on piece by piece as it comes. No framework, because a broker's start should not pay for
one.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, cast
from urllib.parse import unquote, urlsplit

from nexus.observe.logs import get_logger

_log = get_logger(__name__)

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
_METHODS: Final = "GET, HEAD"
_END_OF_HEAD: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer; `headers` are those beyond type, length and connection."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Route = Callable[[], Response | Awaitable[Response]]
Headers = Mapping[str, str]


class BodySink(Protocol):
    """Takes one request's body."""

    def write(self, data: bytes) -> None:
        """The next bytes; BadRequest refuses them and all that would follow."""

    async def finish(self) -> Response:
        """The body is whole: answer it."""

    def abort(self) -> None:
        """The body will never be whole, or was answered; safe to call twice."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A place for POST: the largest body, and what takes one, given the request's headers."""

    limit_bytes: int
    open: Callable[[Headers], BodySink]
    answer_s: float = 600.0


@dataclass(frozen=True, slots=True)
class SideLimits:
    head_bytes: int = 8 << 10
    connections: int = 64
    request_s: float = 5.0
    response_s: float = 30.0


class Request(NamedTuple):
    method: str
    path: str
    headers: Headers = MappingProxyType({})


class BadRequest(Exception):
    """Raised when the bytes of a request are not one that can be answered as asked."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


def parse_request(head: bytes, uploads: Container[str] = ()) -> Request:
    """A request's head without its closing empty line; POST is for the `uploads` paths only."""
    try:
        start, *lines = head.decode("ascii").split("\r\n")
        method, target, version = start.split(" ")
        path = unquote(urlsplit(target).path) or "/"
    except ValueError as error:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "not an HTTP request") from error
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        raise BadRequest(*_wrong_version(version))
    pairs = [line.partition(":") for line in lines if ":" in line]
    names = [name.lower() for name, _, _ in pairs]
    if len(names) != len(lines) or (version == "HTTP/1.1" and names.count("host") != 1):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "malformed or missing headers")
    if method not in ("GET", "HEAD") and not (method == "POST" and path in uploads):
        raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, f"only {_METHODS} are served")
    return Request(method, path, {name.lower(): value.strip() for name, _, value in pairs})


def body_size(headers: Headers, limit_bytes: int) -> int:
    """How long a body is going to be, known before a byte of it is taken."""
    length = headers.get("content-length")
    if length is None or "transfer-encoding" in headers:
        raise BadRequest(HTTPStatus.LENGTH_REQUIRED, "say Content-Length")
    if not (length.isascii() and length.isdecimal()):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "Content-Length is no number")
    if len(length) > 18 or int(length) > limit_bytes:
        why = f"at most {limit_bytes} bytes are taken"
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
    return int(length)


def _wrong_version(version: str) -> tuple[HTTPStatus, str]:
    if version.startswith("HTTP/"):
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 is served"
    return HTTPStatus.BAD_REQUEST, "not an HTTP request"


def refusal(status: HTTPStatus, why: str) -> Response:
    allow = {"Allow": _METHODS} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
    return Response(status, TEXT, f"{status.phrase}: {why}\n".encode(), allow)


def encode_response(response: Response, *, head_only: bool = False) -> bytes:
    lines = [
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *(f"{name}: {value}" for name, value in response.headers.items()),
    ]
    head = "\r\n".join(lines).encode("latin-1") + _END_OF_HEAD
    return head if head_only else head + response.body


class SidePort:
    """Serves `routes` on one address: `start`, then `port` is the real one, then `stop`."""

    def __init__(
        self,
        host: str,
        port: int,
        routes: Mapping[str, Route],
        limits: SideLimits | None = None,
        uploads: Mapping[str, Upload] | None = None,
    ) -> None:
        self.host, self.port = host, port
        self.limits = limits or SideLimits()
        self.routes = routes
        self.uploads = uploads or {}
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every connection; a second call does nothing."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        tasks = [c.abort() for c in list(self.connections)]
        await asyncio.gather(*[t for t in tasks if t], return_exceptions=True)
        await server.wait_closed()

    async def answer(self, request: Request) -> Response:
        route = self.routes.get(request.path)
        if route is not None:
            return await self.guarded(request, route)
        if request.path in self.uploads:
            why = HTTPStatus.METHOD_NOT_ALLOWED, "only POST is served"
            return replace(refusal(*why), headers={"Allow": "POST"})
        return refusal(HTTPStatus.NOT_FOUND, "pages here: " + " ".join(sorted(self.routes)))

    async def guarded(self, request: Request, route: Route) -> Response:
        """What the route answers; the port outlives whatever it does."""
        try:
            result = route()
            return await result if inspect.isawaitable(result) else result
        except BadRequest as error:
            return refusal(error.status, str(error))
        except Exception:  # noqa: BLE001
            _log.exception("side port page failed", path=request.path)
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "this page failed; see the log")


class _Body:
    """A body on its way into its sink."""

    def __init__(self, request: Request, upload: Upload) -> None:
        self.request, self.upload = request, upload
        self.left = body_size(request.headers, upload.limit_bytes)
        self.sink = upload.open(request.headers)

    def write(self, data: bytes) -> None:
        self.left -= len(data)
        self.sink.write(data)

    @property
    def expects_a_word(self) -> bool:
        """Whether the client waits to hear that its body is welcome."""
        return self.request.headers.get("expect", "").lower() == "100-continue"


class _Connection(asyncio.Protocol):
    """One client: read a head, answer it, wait for the client to close or the time to run out."""

    _transport: asyncio.Transport
    _timer: asyncio.TimerHandle

    def __init__(self, port: SidePort) -> None:
        self._port = port
        self._head = bytearray()
        self._answered = self._client_done = False
        self._task: asyncio.Task[None] | None = None
        self._body: _Body | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._port.limits.request_s, self._late)
        if len(self._port.connections) >= self._port.limits.connections:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")
            transport.close()
        else:
            self._port.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._answered:
            return
        if self._body is not None:
            self._take(self._body, data)
            return
        self._head += data
        end = self._head.find(_END_OF_HEAD)
        size = end if end >= 0 else len(self._head)
        if size > self._port.limits.head_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long")
        elif end >= 0:
            self._serve(bytes(self._head[:end]), bytes(self._head[end + len(_END_OF_HEAD) :]))

    def eof_received(self) -> bool:
        self._client_done = True
        if (self._head or self._body) and not self._answered:
            self._refuse(HTTPStatus.BAD_REQUEST, "the request ends too early")
        return self._task is not None and not self._task.done()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._port.connections.discard(self)
        if self._task:
            self._task.cancel()
        elif self._body:
            self._body.sink.abort()

    def abort(self) -> asyncio.Task[None] | None:
        self._transport.abort()
        if self._task:
            self._task.cancel()
        return self._task

    def _serve(self, head: bytes, rest: bytes) -> None:
        try:
            request = parse_request(head, self._port.uploads)
            if request.method == "POST":
                self._body = _Body(request, self._port.uploads[request.path])
        except BadRequest as error:
            self._refuse(error.status, str(error))
            return
        if self._body is None:
            self._begin(self._port.limits.response_s, self._reply(request))
            return
        if self._body.expects_a_word and not rest:
            self._transport.write(_CONTINUE)
        self._take(self._body, rest)

    def _begin(self, seconds: float, reply: Coroutine[Any, Any, None]) -> None:
        self._answered = True
        self._allow(seconds)
        self._task = self._loop.create_task(reply)

    def _take(self, body: _Body, data: bytes) -> None:
        """The next bytes of a body; each has as long to come as a whole head has."""
        self._head.clear()
        self._timer.cancel()
        self._timer = self._loop.call_later(self._port.limits.request_s, self._late)
        try:
            body.write(data[: body.left])
        except BadRequest as error:
            self._refuse(error.status, str(error))
            return
        if not body.left:
            self._begin(body.upload.answer_s, self._answer(body))

    async def _answer(self, body: _Body) -> None:
        try:
            response = await self._port.guarded(body.request, body.sink.finish)
        finally:
            body.sink.abort()
        self._send(encode_response(response))

    async def _reply(self, request: Request) -> None:
        response = await self._port.answer(request)
        self._send(encode_response(response, head_only=request.method == "HEAD"))

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._answered = True
        if self._body:
            self._body.sink.abort()
        self._send(encode_response(refusal(status, why)))

    def _send(self, data: bytes) -> None:
        self._head.clear()
        self._allow(self._port.limits.response_s)
        self._transport.write(data)
        # Only our half closes: a full close with unread input would reset the connection and
        # could take the answer away from the client.
        if self._client_done:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write_eof()

    def _allow(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._transport.abort)

    def _late(self) -> None:
        if self._head or self._body:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the request took too long")
        else:
            self._transport.close()
