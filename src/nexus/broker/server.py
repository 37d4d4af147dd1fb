"""The listener: accepts connections within limits, and watches over them.

Connections beyond the limit are closed at once; idle ones, half-open ones and frames that never
end are closed in time. Memory for unfinished frames comes out of one budget for all clients.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections import deque
from typing import TYPE_CHECKING, Final

from nexus.broker.connection import Connection, ConnectionLimits
from nexus.errors import NexusError
from nexus.observe.logs import get_logger

if TYPE_CHECKING:
    from nexus.broker.broker import Broker
    from nexus.broker.dispatch import Dispatcher
    from nexus.settings import PerformanceSection

log = get_logger(__name__)

SCRATCH_BYTES: Final = 256 * 1024
ACCEPTS_AT_ONCE: Final = 128
SWEEP_SECONDS_MAX: Final = 5.0
SWEPT_AT_ONCE: Final = 500
# Descriptors for files and for the unexpected, beside one for each connection.
SPARE_DESCRIPTORS: Final = 1024


class AddressInUse(NexusError):
    """Raised when a port to listen on is taken or forbidden."""

    def __init__(self, host: str, port: int, flag: str, error: OSError) -> None:
        # asyncio wraps the system's words; the number leads back to them.
        why = os.strerror(error.errno) if error.errno else str(error)
        super().__init__(
            f"cannot listen on {host}:{port}: {why}; choose another with {flag} HOST:PORT"
        )


class Server:
    """Owns the listening socket and every client's connection."""

    def __init__(
        self, broker: Broker, dispatcher: Dispatcher, settings: PerformanceSection
    ) -> None:
        self.loop = broker.loop
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.limits = ConnectionLimits(
            frame_bytes_max=settings.max_request_bytes,
            in_flight_max=settings.max_in_flight_requests,
            queued_bytes_max=settings.max_queued_bytes,
        )
        self.handle = dispatcher.handle
        self._metrics = broker.metrics
        self._settings = settings
        self._listener: socket.socket | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._progress: dict[Connection, int] = {}
        self._held_bytes = 0
        self._waiting: deque[Connection] = deque()
        self._is_accepting = False
        self.connections: set[Connection] = set()

    def listen(self, host: str, port: int) -> int:
        """Open the port; returns the real one (0 asks the system for a free one)."""
        self._listener = _listen(host, port)
        bound: int = self._listener.getsockname()[1]
        return bound

    def start(self) -> None:
        """Accept clients."""
        assert self._listener is not None
        self._is_accepting = True
        self.loop.add_reader(self._listener.fileno(), self._accept)
        self._sweeper = self.loop.create_task(self._sweep())

    def stop_accepting(self) -> None:
        """Take no new connection and no new request."""
        if self._listener is not None:
            if self._is_accepting:
                self.loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
        for connection in self.connections:
            connection.pause()

    async def drain(self, seconds: float) -> None:
        """Wait until every client has its answers, at most so long."""
        deadline = self.loop.time() + seconds
        while self.loop.time() < deadline:
            if all(connection.is_idle for connection in self.connections):
                return
            await asyncio.sleep(0.01)

    def close(self) -> None:
        """Close every connection; safe to call twice."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.stop_accepting()
        for connection in list(self.connections):
            connection.close()

    def now(self) -> float:
        """The loop's clock."""
        return self.loop.time()

    def hold(self, connection: Connection, grown_bytes: int) -> bool:
        """Account memory for unfinished frames; false when the budget is spent for now."""
        self._held_bytes += grown_bytes
        if self._held_bytes > self._settings.request_memory_bytes and grown_bytes > 0:
            self._waiting.append(connection)
            return False
        if self._waiting and self._held_bytes < self._settings.request_memory_bytes:
            self.loop.call_soon(self._waiting.popleft().resume)
        return True

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self.connections.discard(connection)
        self._progress.pop(connection, None)

    def refused(self, connection: Connection, why: str) -> None:
        """Say why a client is turned away."""
        self._metrics.error("bad_request")
        log.warning("closing a connection", peer=connection.peer, why=why)

    def _accept(self) -> None:
        assert self._listener is not None
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._cannot_accept(error)
                return
            self._admit(sock, f"{address[0]}:{address[1]}")

    def _cannot_accept(self, error: OSError) -> None:
        log.error("cannot accept a connection", why=str(error))
        self._metrics.error("accept")
        if error.errno in {errno.EMFILE, errno.ENFILE} and self._listener is not None:
            # Out of descriptors: the backlog would wake us without end.
            self.loop.remove_reader(self._listener.fileno())
            self._is_accepting = False
            self.loop.call_later(1.0, self._accept_again)

    def _accept_again(self) -> None:
        if self._listener is not None:
            self._is_accepting = True
            self.loop.add_reader(self._listener.fileno(), self._accept)

    def _admit(self, sock: socket.socket, peer: str) -> None:
        if len(self.connections) >= self._settings.max_connections:
            sock.close()
            self._metrics.error("too_many_connections")
            return
        sock.setblocking(False)
        _tune(sock, self._settings)
        connection = Connection(self, sock, peer)
        self.connections.add(connection)
        self._metrics.connections_accepted.inc()
        connection.start()

    async def _sweep(self) -> None:
        shortest_ms = min(self._settings.frame_timeout_ms, self._settings.connection_idle_ms)
        pause = min(SWEEP_SECONDS_MAX, shortest_ms / 2000)
        while True:
            await asyncio.sleep(pause)
            everyone = list(self.connections)
            for first in range(0, len(everyone), SWEPT_AT_ONCE):
                for connection in everyone[first : first + SWEPT_AT_ONCE]:
                    self._close_if_stuck(connection)
                # Others get their turn: ten thousand at a stretch would be felt.
                await asyncio.sleep(0)

    def _close_if_stuck(self, connection: Connection) -> None:
        now = self.now()
        if self._progress.get(connection, 0) != connection.progress:
            self._progress[connection] = connection.progress
            connection.active_at = now
        began = connection.frame_began_at
        if began is not None and now - began > self._settings.frame_timeout_ms / 1000:
            self.refused(connection, "an unfinished request timed out")
            connection.close()
        elif now - connection.active_at > self._settings.connection_idle_ms / 1000:
            self._metrics.error("idle_connection")
            connection.close()


def raise_descriptor_limit(connections_max: int) -> int | None:
    """Ask for enough descriptors; returns how many connections fit when that is fewer."""
    wanted = connections_max + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return None
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except (ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return max(hard - SPARE_DESCRIPTORS, 1)
        return None
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(4096)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise AddressInUse(host, port, "--listen", error) from error
    return listener


def _tune(sock: socket.socket, settings: PerformanceSection) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A peer that vanished without a word is found by the kernel's probes.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if settings.socket_send_buffer_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.socket_send_buffer_bytes)
    if settings.socket_receive_buffer_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.socket_receive_buffer_bytes)
