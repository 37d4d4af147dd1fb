"""A small client of another broker: one connection, one request at a time, each with a deadline.

Here is also how a request to another broker says for whom it is forwarded.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Any, Final

from nexus.wire.apis import ApiKey
from nexus.wire.errors import MalformedMessage
from nexus.wire.frames import decode_response, encode_request

CONNECT_SECONDS: Final = 2.0
ANSWER_BYTES_MAX: Final = 128 << 20
_BUFFER_BYTES: Final = 4 << 20
_LENGTH: Final = Struct(">i")
# A client id that begins so comes from a broker, and goes on with the client's address and id.
FORWARDED: Final = "nexus-forwarded/"


def forwarding_id(host: str, client_id: str) -> str:
    """The client id of a request that is forwarded for a client."""
    return f"{FORWARDED}{host}/{client_id}"


def forwarded_from(client_id: str) -> tuple[str, str]:
    """The address and the id of the client for whom a request was forwarded."""
    host, _, own = client_id.removeprefix(FORWARDED).partition("/")
    return host, own


class Peer:
    """The way to one broker; connects when it is first asked, and again after `close`."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self.address = (host, port)
        self._client_id = client_id
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._correlation = 0

    async def ask(self, key: ApiKey, version: int, body: object, timeout_s: float) -> Any:
        """The answer to a request; OSError or TimeoutError where there is none."""
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await self._connected()
                self._correlation += 1
                number = self._correlation
                writer.write(encode_request(key, version, number, self._client_id, body))
                await writer.drain()
                return await self._answer(reader, key, version)
        except asyncio.IncompleteReadError as error:
            self.close()
            raise ConnectionResetError("the broker hung up") from error
        except BaseException:
            # What would come now belongs to nobody.
            self.close()
            raise

    def close(self) -> None:
        """Hang up; safe to call twice."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and _is_over(*self._streams):
            # The broker was restarted meanwhile: a question would only find that out.
            self.close()
        if self._streams is None:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._streams = await asyncio.open_connection(*self.address, limit=_BUFFER_BYTES)
        return self._streams

    async def _answer(self, reader: asyncio.StreamReader, key: ApiKey, version: int) -> Any:
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if not 0 <= size <= ANSWER_BYTES_MAX:
            raise MalformedMessage(f"an answer of {size} bytes")
        frame = memoryview(await reader.readexactly(size))
        return decode_response(key, version, self._correlation, frame)


def _is_over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the other side hung up, or the connection broke."""
    return reader.at_eof() or reader.exception() is not None or writer.transport.is_closing()
