"""Requests and responses over ASGI, without a framework: what the hot path needs and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import orjson

from nexus.proxy.errors import BodyTooLarge
from nexus.web.problems import MEDIA_TYPE, BadParameter, Overloaded, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
JSON: Final = "application/json"
_NO_STORE: Final = (b"cache-control", b"no-store")
_NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")


class Gone(Exception):
    """Raised when the client left before it had sent everything."""


class Budget:
    """How many bytes of requests may be held at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Room for a body; Overloaded when there is none."""
        if self.held + size > self._most:
            raise Overloaded(f"{self.held} bytes of other requests are being written")
        self.held += size
        try:
            yield
        finally:
            self.held -= size


class Request:
    """One request; its body is read when it is asked for."""

    __slots__ = ("_body_most", "_query", "_receive", "headers", "method", "path", "scope")

    def __init__(self, scope: Mapping[str, Any], receive: Receive, body_most: int) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self._body_most = body_most
        self._query: dict[str, str] | None = None

    @property
    def receive(self) -> Receive:
        return self._receive

    def header(self, name: bytes) -> str | None:
        found = self.headers.get(name)
        return None if found is None else found.decode("latin-1")

    def query(self, known: tuple[str, ...]) -> dict[str, str]:
        """The parameters; one that is not known, or comes twice, is refused."""
        raw: bytes = self.scope["query_string"]
        found: dict[str, str] = {}
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError:
            raise BadParameter.of("query", "is not a query in percent-encoded UTF-8") from None
        for name, value in pairs:
            if name not in known:
                raise BadParameter.of(name[:100], f"is not known here; known: {', '.join(known)}")
            if name in found:
                raise BadParameter.of(name, "was given twice")
            found[name] = value
        return found

    def announced(self) -> int:
        """How long the body will be, as far as the client says; BodyTooLarge."""
        said = self.headers.get(b"content-length", b"")
        size = int(said) if said.isdigit() else 0
        if size > self._body_most:
            raise BodyTooLarge(f"a body has at most {self._body_most} bytes")
        if not said and b"transfer-encoding" in self.headers:
            return self._body_most
        return size

    async def body(self) -> bytes:
        """All of the body; BodyTooLarge before it is held, Gone when the client leaves."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > self._body_most:
                raise BodyTooLarge(f"a body has at most {self._body_most} bytes")
            parts.append(part)
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)


class Response:
    """A whole answer."""

    __slots__ = ("_headers", "_kind", "body", "status")

    def __init__(
        self,
        body: bytes,
        status: int = 200,
        kind: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.body = body
        self.status = status
        self._kind = kind
        self._headers = headers

    def allow(self, origin: str, more: Mapping[str, str] | None = None) -> None:
        """Let a page of another site see the answer."""
        said = {"Access-Control-Allow-Origin": origin, "Vary": "Origin", **(more or {})}
        self._headers = {**(self._headers or {}), **said}

    async def __call__(self, receive: Receive, send: Send, *, head_only: bool = False) -> None:
        pairs = [
            (b"content-type", self._kind.encode()),
            (b"content-length", b"%d" % len(self.body)),
            _NO_STORE,
            _NO_SNIFF,
        ]
        if self._headers:
            pairs += [(k.lower().encode(), v.encode("latin-1")) for k, v in self._headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"" if head_only else self.body})


def document(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON answer."""
    return Response(orjson.dumps(content), status, JSON, headers)


def problem_response(problem: Problem, path: str) -> Response:
    """A problem's document."""
    headers = {name: value for name, value in problem.headers().items() if name != "Cache-Control"}
    body = orjson.dumps(problem.document(path))
    return Response(body, problem.status, MEDIA_TYPE, headers)


async def within(deadline_s: float, work: Awaitable[bytes]) -> bytes:
    """A body that comes in time; BadParameter when the client is too slow."""
    try:
        async with asyncio.timeout(deadline_s):
            return await work
    except TimeoutError:
        raise BadParameter("the body did not come in time") from None
