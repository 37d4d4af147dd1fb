"""From a frame to its handler, and from the handler's answer to the response's bytes.

A handler is a plain function or a coroutine function of (broker, request, body). What it returns
is encoded in the version that was asked for; an unexpected exception costs its client the
connection, never the process.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, cast

from nexus.broker.connection import Connection, Slot
from nexus.broker.outbox import Part
from nexus.broker.peer import FORWARDED, forwarded_from
from nexus.observe.logs import get_logger
from nexus.wire.apis import APIS, Api, ApiKey
from nexus.wire.codec import decode_prefix
from nexus.wire.errors import ErrorCode, ProtocolError, UnsupportedVersion
from nexus.wire.frames import decode_request_header, encode_response
from nexus.wire.messages.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

log = get_logger(__name__)


class _NoResponse:
    """The answer to a request that wants none (produce with acks=0)."""


NO_RESPONSE: Final = _NoResponse()


@dataclass(slots=True)
class Request:
    """Where a request came from, and in which version it wants its answer."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    connection: Connection
    arrived_at: float
    origin: str | None = None  # the client's address, where another broker forwards its request

    @property
    def client_host(self) -> str:
        """Where the client is that asks."""
        return self.connection.peer_host if self.origin is None else self.origin


Handler = Callable[["Broker", Request, Any], Any]


class Deferred:
    """An answer that is given later by a callback: a future without the event loop's share of it.

    Produce makes one for every request, which is why it is not an asyncio.Future.
    """

    __slots__ = ("_give", "_response", "abandon", "is_given")

    def __init__(self) -> None:
        # For whoever does not want it any more; only long polls can be ended so.
        self.abandon: Callable[[], None] | None = None
        self._give: Callable[[object], None] | None = None
        self._response: object = None
        self.is_given = False

    def then(self, give: Callable[[object], None]) -> None:
        """Say who takes the answer."""
        self._give = give
        if self._response is not None:
            give(self._response)

    def resolve(self, response: object) -> None:
        """Give the answer."""
        self.is_given = True
        self._response = response
        if self._give is not None:
            self._give(response)


class Dispatcher:
    """Serves the requests of all connections."""

    def __init__(self, broker: Broker, handlers: dict[ApiKey, Handler]) -> None:
        self._broker = broker
        self._handlers: dict[int, tuple[Api, Handler]] = {
            key: (APIS[key], handler) for key, handler in handlers.items()
        }
        self._tasks: set[asyncio.Future[Any]] = set()
        self._waiting = 0

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Decode one request and start to serve it."""
        arrived_at = perf_counter()
        header, body_at = decode_request_header(frame)
        key, version = header.request_api_key, header.request_api_version
        known = self._handlers.get(key)
        if known is None or not known[0].min_version <= version <= known[0].max_version:
            self._refuse_version(connection, key, version, header.correlation_id)
            return
        api, handler = known
        # Bytes after the body are ignored, as Kafka does: some clients send more than they mean.
        body: Any = decode_prefix(api.request, frame, version, body_at)[0]
        client_id, origin = header.client_id or "", None
        if client_id.startswith(FORWARDED):
            origin, client_id = forwarded_from(client_id)
        request = Request(
            api, version, header.correlation_id, client_id, connection, arrived_at, origin
        )
        try:
            answer = handler(self._broker, request, body)
        except Exception as error:  # noqa: BLE001 - a client never takes the process down
            self._broke(request, error)
            return
        self._answer(request, answer)

    async def drain(self, seconds: float) -> None:
        """Wait for the requests that are being served, at most so long."""
        deadline = self._broker.loop.time() + seconds
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        while self._broker.loop.time() < deadline:
            if not self._waiting:
                return
            await asyncio.sleep(0.005)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what no response waits for, but a clean stop does."""
        task = spawn(self._broker.loop, work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _answer(self, request: Request, answer: Any) -> None:
        if answer is NO_RESPONSE:
            self._broker.metrics.served(request.api, perf_counter() - request.arrived_at)
            return
        slot = request.connection.expect()
        kind = type(answer)
        if kind is Deferred:
            self._waiting += 1
            answer.then(partial(self._send_deferred, request, slot))
        elif kind is CoroutineType:
            self._answer_later(request, slot, answer)
        else:
            self._send(request, slot, answer)

    def _send_deferred(self, request: Request, slot: Slot, response: object) -> None:
        self._waiting -= 1
        if not request.connection.is_closed:
            self._send(request, slot, response)

    def _answer_later(
        self, request: Request, slot: Slot, answer: Coroutine[Any, Any, object]
    ) -> None:
        task = self._broker.loop.create_task(answer)
        self._tasks.add(task)

        def done(task: asyncio.Future[Any]) -> None:
            self._tasks.discard(task)
            if request.connection.is_closed or task.cancelled():
                if not task.cancelled():
                    task.exception()  # seen: the client that would be told is gone
                return
            error = task.exception()
            if error is None:
                self._send(request, slot, task.result())
            elif isinstance(error, ProtocolError):
                self._refuse(request, slot, error)
            else:
                self._broke(request, error)

        task.add_done_callback(done)

    def _send(self, request: Request, slot: Slot, response: object) -> None:
        try:
            parts = _encoded(request.api, request.version, request.correlation_id, response)
        except Exception as error:  # noqa: BLE001 - whatever a client made us say, we go on
            self._broke(request, error)
            return
        slot.fill(parts)
        self._broker.metrics.served(request.api, perf_counter() - request.arrived_at)

    def _broke(self, request: Request, error: BaseException) -> None:
        log.error(
            "request failed",
            api=request.api.name,
            version=request.version,
            peer=request.connection.peer,
            error="".join(traceback.format_exception(error)),
        )
        self._broker.metrics.error("internal")
        request.connection.close()

    def _refuse(self, request: Request, slot: Slot, error: ProtocolError) -> None:
        """Answer a request that failed as a whole, where its response has a place to say so."""
        self._broker.metrics.error(error.code.name.lower())
        log.warning("request refused", api=request.api.name, why=str(error))
        response: Any = request.api.response()
        if hasattr(response, "error_code"):
            response.error_code = error.code
            self._send(request, slot, response)
        else:
            request.connection.close()

    def _refuse_version(
        self, connection: Connection, key: int, version: int, correlation_id: int
    ) -> None:
        if key != ApiKey.API_VERSIONS:
            raise UnsupportedVersion(f"version {version} of API {key} is not served")
        # The one request whose version cannot be known before it is asked: answered in the
        # oldest form, with the ranges that are served.
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._broker.api_versions()
        )
        parts = _encoded(APIS[ApiKey.API_VERSIONS], 0, correlation_id, response)
        connection.expect().fill(parts)


def _encoded(api: Api, version: int, correlation_id: int, response: object) -> list[Part]:
    # The payloads that handlers put into responses are slices of the log.
    return cast("list[Part]", encode_response(api, version, correlation_id, response))


async def settled(answer: Any) -> Any:
    """What a handler answers in the end, whichever way it answers."""
    if type(answer) is CoroutineType:
        return await answer
    if type(answer) is not Deferred:
        return answer
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    answer.then(lambda response: None if future.done() else future.set_result(response))
    try:
        return await future
    finally:
        if answer.abandon is not None and not answer.is_given:
            answer.abandon()


def spawn(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a background task whose failure is logged, not lost."""
    task = loop.create_task(work)
    task.add_done_callback(_log_failure)
    return task


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background task failed", error="".join(traceback.format_exception(error)))
