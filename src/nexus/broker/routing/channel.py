"""A pipelined connection to another broker: many questions under way, answered in their order.

It connects when it is first asked; what is asked until then waits. One that broke stays broken, and
whoever asks is told whether the question can have arrived.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from nexus.broker.framing import FrameReader
from nexus.broker.peer import ANSWER_BYTES_MAX, CONNECT_SECONDS
from nexus.wire.apis import ApiKey
from nexus.wire.errors import ProtocolError
from nexus.wire.frames import decode_response, encode_request

SCRATCH_BYTES: Final = 256 * 1024


class Unreachable(ConnectionError):
    """Raised when a broker cannot be reached: it has not seen the question."""


class Lost(ConnectionError):
    """Raised when a connection ends before the answer: what was asked for may have been done."""


@dataclass(slots=True)
class _Question:
    key: ApiKey
    version: int
    correlation_id: int
    answer: asyncio.Future[Any]


class Channel(asyncio.BufferedProtocol):
    """One connection, for the requests of one client."""

    def __init__(self, address: tuple[str, int], scratch: memoryview) -> None:
        self.address = address
        self._scratch = scratch
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(ANSWER_BYTES_MAX)
        self._questions: deque[_Question] = deque()
        self._unsent: list[bytearray] = []
        self._transport: asyncio.Transport | None = None
        self._correlation = 0
        self._connecting = self._loop.create_task(self._connect())
        self._has_told = False
        self._is_leaving = False
        self.is_closed = False
        self.is_full = True  # until it is connected, and while more waits than should
        self.when_lost: Callable[[], None] | None = None
        self.when_drained: Callable[[], None] | None = None

    def ask(self, key: ApiKey, version: int, client_id: str, body: object) -> asyncio.Future[Any]:
        """The answer, once it comes; Unreachable or Lost."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._send(key, version, client_id, body)
        self._questions.append(_Question(key, version, self._correlation, answer))
        return answer

    def tell(self, key: ApiKey, version: int, client_id: str, body: object) -> None:
        """Send what is not answered."""
        self._has_told = True
        self._send(key, version, client_id, body)

    def finish(self) -> None:
        """Hang up since nobody waits any more, but not before what is not answered was sent."""
        if not self._has_told:
            self.close()
            return
        self.when_lost = self.when_drained = None
        self._is_leaving = True
        if self._transport is not None:
            self._transport.close()

    def close(self) -> None:
        """Hang up: a question that waits there is over; safe to call twice."""
        self.when_lost = None
        self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._end(Lost("the question was given up"))

    def _send(self, key: ApiKey, version: int, client_id: str, body: object) -> None:
        self._correlation += 1
        frame = encode_request(key, version, self._correlation, client_id, body)
        if self._transport is None:
            self._unsent.append(frame)
        else:
            self._transport.write(frame)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._loop.create_connection(lambda: self, *self.address)
        except OSError as error:
            self._end(Unreachable(f"{self.address[0]}:{self.address[1]}: {error}"))

    def _end(self, error: ConnectionError) -> None:
        self.is_closed = True
        self._unsent.clear()
        if self.when_lost is not None:
            self.when_lost()
        questions, self._questions = self._questions, deque()
        for question in questions:
            if not question.answer.done():
                question.answer.set_exception(error)
                # Not everybody still waits for what went wrong.
                question.answer.exception()

    # What the event loop calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The loop's own kind of it, which is no subclass.
        self._transport = stream = cast("asyncio.Transport", transport)
        unsent, self._unsent = self._unsent, []
        self.is_full = False
        stream.writelines(unsent)
        if self._is_leaving:
            stream.close()
        elif not self.is_full:
            self.resume_writing()

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if self.when_drained is not None:
            self.when_drained()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room(self._scratch)

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(self._scratch, nbytes):
                self._answered(frame)
        except (ProtocolError, IndexError) as error:
            self._end(Lost(f"an answer cannot be read: {error}"))
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(Lost("the broker hung up"))

    def _answered(self, frame: memoryview) -> None:
        question = self._questions.popleft()
        if question.answer.done():
            return
        # The scratch is used again at once; what does not fit in it has its own memory already.
        own = frame if len(frame) > SCRATCH_BYTES else memoryview(bytes(frame))
        try:
            body = decode_response(question.key, question.version, question.correlation_id, own)
        except ProtocolError as error:
            question.answer.set_exception(Lost(str(error)))
            raise
        question.answer.set_result(body)
