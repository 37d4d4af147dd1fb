"""A small client of another broker: one connection, one request at a time, each with a deadline."""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Any, Final

from nexus.wire.apis import APIS, ApiKey
from nexus.wire.codec import decode_prefix, encode_into
from nexus.wire.errors import MalformedMessage
from nexus.wire.messages.headers import RequestHeader, ResponseHeader

CONNECT_SECONDS: Final = 2.0
ANSWER_BYTES_MAX: Final = 128 << 20
_BUFFER_BYTES: Final = 4 << 20
_LENGTH: Final = Struct(">i")


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
                writer.write(self._encoded(key, version, body))
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
        if self._streams is None:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._streams = await asyncio.open_connection(*self.address, limit=_BUFFER_BYTES)
        return self._streams

    def _encoded(self, key: ApiKey, version: int, body: object) -> bytearray:
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation,
            client_id=self._client_id,
        )
        out = bytearray(_LENGTH.size)
        encode_into(out, header, 2 if APIS[key].flexible(version) else 1)
        encode_into(out, body, version)
        _LENGTH.pack_into(out, 0, len(out) - _LENGTH.size)
        return out

    async def _answer(self, reader: asyncio.StreamReader, key: ApiKey, version: int) -> Any:
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if not 0 <= size <= ANSWER_BYTES_MAX:
            raise MalformedMessage(f"an answer of {size} bytes")
        frame = memoryview(await reader.readexactly(size))
        api = APIS[key]
        header, at = decode_prefix(ResponseHeader, frame, 1 if api.flexible(version) else 0)
        if header.correlation_id != self._correlation:
            raise MalformedMessage("an answer to another request")
        return decode_prefix(api.response, frame, version, at)[0]
