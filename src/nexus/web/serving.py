"""A uvicorn server that says when it is ready, ends on a signal, and ends streams first."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

from nexus.errors import NexusError
from nexus.observe.logs import get_logger

BACKLOG: Final = 2048

log = get_logger(__name__)


class CannotListen(NexusError):
    """Raised when the port to listen on cannot be had."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; a port that is taken is one clear line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            said = f"port {port} is taken; give --port another one"
        else:
            said = f"cannot listen on {host} port {port}: {error.strerror or error}"
        raise CannotListen(said) from error


def url_of(host: str, listener: socket.socket) -> str:
    """Where clients connect."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


class Server(uvicorn.Server):
    """Says when it is ready, and ends streams before it waits for connections to end."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], None],
        end_streams: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._end_streams = end_streams

    async def serve_on(self, listener: socket.socket) -> None:
        """Serve until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end)
        await self.serve(sockets=[listener])

    def end(self) -> None:
        """The first signal stops in good order, the second at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The loop handles signals: a stop that was asked for ends with success."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("stopping")
        await self._end_streams()
        await super().shutdown(sockets)
