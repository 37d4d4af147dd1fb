"""One connection to a broker for many requests at once; answers come in the order of requests."""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import Any, Final, NamedTuple, cast

from nexus.proxy.errors import BrokerAway
from nexus.wire.apis import ApiKey
from nexus.wire.errors import MalformedMessage, ProtocolError
from nexus.wire.frames import decode_response, encode_request

ANSWER_BYTES_MAX: Final = 128 << 20
_LENGTH: Final = Struct(">i")


class _Waiting(NamedTuple):
    key: ApiKey
    version: int
    correlation_id: int
    answer: asyncio.Future[Any]


class Link(asyncio.Protocol):
    """What is asked goes out at once; nobody waits for the answers of others before asking."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_Waiting] = deque()
        self._pending = bytearray()
        self._correlation = 0

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def in_flight(self) -> int:
        """Requests that have no answer yet."""
        return len(self._waiting)

    def ask(self, key: ApiKey, version: int, body: object) -> asyncio.Future[Any]:
        """Send a request; its answer, or BrokerAway in doubt when the connection ends first."""
        if self._transport is None:
            raise BrokerAway("the connection has ended")
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(key, version, self._correlation, answer))
        self.tell(key, version, body)
        return answer

    def tell(self, key: ApiKey, version: int, body: object) -> None:
        """Send a request that gets no answer."""
        if self._transport is None:
            raise BrokerAway("the connection has ended")
        frame = encode_request(key, version, self._correlation, self._client_id, body)
        self._transport.write(frame)

    def close(self) -> None:
        """Hang up; safe to call twice."""
        if self._transport is not None:
            self._transport.abort()

    # What the event loop calls ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no such class

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._pending.clear()
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if not one.answer.done():
                one.answer.set_exception(BrokerAway("the broker hung up", in_doubt=True))
                one.answer.exception()  # who asked may be gone; that is no fault

    def data_received(self, data: bytes) -> None:
        self._pending += data
        try:
            self._take_frames()
        except (ProtocolError, IndexError) as error:
            # What comes now would belong to nobody.
            self._pending.clear()
            self.close()
            if not isinstance(error, ProtocolError):
                raise

    def _take_frames(self) -> None:
        at, pending = 0, self._pending
        while len(pending) - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(pending, at)
            if not 0 <= size <= ANSWER_BYTES_MAX:
                raise MalformedMessage(f"an answer of {size} bytes")
            end = at + _LENGTH.size + size
            if end > len(pending):
                break
            with memoryview(pending) as view:
                frame = bytes(view[at + _LENGTH.size : end])
            self._take(memoryview(frame))
            at = end
        if at:
            del pending[:at]

    def _take(self, frame: memoryview) -> None:
        key, version, correlation_id, answer = self._waiting.popleft()
        decoded = decode_response(key, version, correlation_id, frame)
        if not answer.done():
            answer.set_result(decoded)


async def connect(address: tuple[str, int], client_id: str, timeout_s: float) -> Link:
    """A link to a broker; BrokerAway when it cannot be had in time."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            _, link = await loop.create_connection(lambda: Link(client_id), *address)
    except TimeoutError:
        raise BrokerAway(f"no connection within {timeout_s:g} s") from None
    except OSError as error:
        raise BrokerAway(error.strerror or str(error)) from None
    return link
