"""What the discarding servers share: bytes that wait for the rest of their message."""

from __future__ import annotations

import asyncio
from typing import cast


class Discarding(asyncio.Protocol):
    """Takes what is whole, and answers it in one write."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.greet()

    def greet(self) -> None:
        """What the server says first, if anything."""

    def data_received(self, data: bytes) -> None:
        data = self._pending + data
        taken, answer = self.take(data)
        self._pending = data[taken:]
        if answer:
            self.transport.write(answer)

    def take(self, data: bytes) -> tuple[int, bytes]:
        """How many bytes were whole messages, and what to answer."""
        raise NotImplementedError
