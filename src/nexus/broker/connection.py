"""One client's connection: frames in, responses out in the order of their requests.

Everything a client can make us hold is bounded: the unfinished frame, the requests in flight and
the bytes queued for sending. At a bound we stop reading, and TCP makes the client wait.
"""

from __future__ import annotations

import socket
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from nexus.broker.framing import FrameReader
from nexus.broker.outbox import Outbox, Part
from nexus.wire.errors import ProtocolError


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How much one connection may hold."""

    frame_bytes_max: int
    in_flight_max: int
    queued_bytes_max: int


class Host(Protocol):
    """What a connection needs of the server that accepted it."""

    scratch: memoryview
    limits: ConnectionLimits
    loop: AbstractEventLoop

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request; `connection.expect` gives the place for its response."""

    def hold(self, connection: Connection, grown_bytes: int) -> bool:
        """Account memory for an unfinished frame; false when it must wait for others' to go."""

    def now(self) -> float:
        """Monotonic seconds."""

    def closed(self, connection: Connection) -> None:
        """Forget the connection."""

    def refused(self, connection: Connection, why: str) -> None:
        """Note that a connection is closed for what its client sent."""


class Slot:
    """The place of one response in its connection's order."""

    __slots__ = ("_connection", "parts")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.parts: Sequence[Part] | None = None

    def fill(self, parts: Sequence[Part]) -> None:
        """Give the response; it goes out once those before it have."""
        self.parts = parts
        self._connection.deliver_soon()


class Connection:
    """The state of one client's socket."""

    __slots__ = (
        "_delivering",
        "_frames",
        "_held",
        "_host",
        "_outbox",
        "_reading",
        "_slots",
        "_socket",
        "active_at",
        "at_close",
        "client_software",
        "forwarded_bytes",
        "frame_began_at",
        "is_closed",
        "peer",
    )

    def __init__(self, host: Host, sock: socket.socket, peer: str) -> None:
        self._host = host
        self._socket = sock
        self._frames = FrameReader(host.limits.frame_bytes_max)
        self._outbox = Outbox(sock, host.loop, self._on_drained, self._on_send_error)
        self._slots: deque[Slot] = deque()
        self._reading = False
        self._delivering = False
        self._held = 0
        self.peer = peer
        self.client_software = ""
        self.active_at = host.now()
        self.frame_began_at: float | None = None
        self.forwarded_bytes = 0  # of requests that wait for another broker's answer
        self.at_close: set[Callable[[], None]] = set()
        self.is_closed = False

    def start(self) -> None:
        """Begin to read."""
        self._reading = True
        self._host.loop.add_reader(self._socket.fileno(), self._on_readable)

    def expect(self) -> Slot:
        """Reserve the next response's place."""
        slot = Slot(self)
        self._slots.append(slot)
        return slot

    def deliver_soon(self) -> None:
        """Send what is ready when the event loop is through with what it has at hand.

        Responses that become ready together, to pipelined requests or by one flush, then leave
        in one system call.
        """
        if not self._delivering:
            self._delivering = True
            self._host.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._delivering = False
        if self.is_closed:
            return
        slots = self._slots
        ready: list[Part] = []
        while slots and (parts := slots[0].parts) is not None:
            slots.popleft()
            ready += parts
        if ready:
            self._outbox.send(ready)

    def resume(self) -> None:
        """Go on unless a bound stands against it: first with what is here, then the socket."""
        if self._reading or self.is_closed or self._is_full() or not self._account():
            return
        self._serve(self._frames.pending())
        if not self.is_closed and not self._reading and not self._is_full():
            self.start()

    def pause(self) -> None:
        """Stop reading; what was read is served."""
        if self._reading:
            self._reading = False
            self._host.loop.remove_reader(self._socket.fileno())

    def close(self) -> None:
        """Close at once; safe to call twice."""
        if self.is_closed:
            return
        self.is_closed = True
        self.pause()
        self._outbox.close()
        self._slots.clear()
        self._host.hold(self, -self._held)
        self._held = 0
        self._socket.close()
        self._host.closed(self)
        waiting, self.at_close = self.at_close, set()
        for leave in waiting:
            leave()

    @property
    def local_host(self) -> str:
        """The address at which the client reached us."""
        host: str = self._socket.getsockname()[0]
        return host

    @property
    def peer_host(self) -> str:
        """The client's address without its port."""
        return self.peer.rpartition(":")[0]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is owed to the client."""
        return not self._slots and not self._outbox.queued_bytes

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for the client to read."""
        return self._outbox.queued_bytes

    @property
    def progress(self) -> int:
        """Bytes sent so far: a peer that reads makes it grow."""
        return self._outbox.sent_bytes

    def _on_readable(self) -> None:
        room = self._frames.room(self._host.scratch)
        try:
            count = self._socket.recv_into(room)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if count == 0:
            self.close()
            return
        self.active_at = self._host.now()
        self._serve(self._frames.received(self._host.scratch, count))

    def _serve(self, frames: Iterator[memoryview]) -> None:
        try:
            for frame in frames:
                self.frame_began_at = None
                self._host.handle(self, frame)
                if self.is_closed or self._is_full():
                    break
        except ProtocolError as error:
            self._host.refused(self, str(error))
            self.close()
        if self.is_closed:
            return
        if self._is_full() or not self._account():
            self.pause()

    def _is_full(self) -> bool:
        limits = self._host.limits
        return (
            len(self._slots) >= limits.in_flight_max
            or self._outbox.queued_bytes > limits.queued_bytes_max
            or self.forwarded_bytes > limits.queued_bytes_max
        )

    def _account(self) -> bool:
        """Tell the host what the unfinished frame holds; false when that is too much for now."""
        held = self._frames.held_bytes
        if held and self.frame_began_at is None:
            self.frame_began_at = self._host.now()
        elif not held:
            self.frame_began_at = None
        allowed = self._host.hold(self, held - self._held) if held != self._held else True
        self._held = held
        return allowed

    def _on_drained(self) -> None:
        if not self._reading and not self.is_closed:
            self._host.loop.call_soon(self.resume)

    def _on_send_error(self, _: OSError) -> None:
        self.close()
