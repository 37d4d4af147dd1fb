"""What a connection has to send: buffers and file slices, in order, on a non-blocking socket.

File slices go out by `sendfile`, straight from the page cache. A peer that does not read costs a
bounded amount of memory, because a slice waits as a reference to its file.
"""

from __future__ import annotations

import os
import socket
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from nexus.log.files import FileSlice

Part = bytes | bytearray | memoryview | FileSlice

SENDFILE_BYTES_MIN: Final = 64 * 1024


class Outbox:
    """Sends at once what the socket takes and the rest as it becomes writable."""

    __slots__ = (
        "_blocked",
        "_loop",
        "_on_drained",
        "_on_error",
        "_parts",
        "_socket",
        "queued_bytes",
        "sent_bytes",
    )

    def __init__(
        self,
        sock: socket.socket,
        loop: AbstractEventLoop,
        on_drained: Callable[[], None],
        on_error: Callable[[OSError], None],
    ) -> None:
        self._socket = sock
        self._loop = loop
        self._on_drained = on_drained
        self._on_error = on_error
        self._parts: deque[Part] = deque()
        self._blocked = False
        self.queued_bytes = 0
        self.sent_bytes = 0

    def send(self, parts: Sequence[Part]) -> None:
        """Queue the parts of one response and send what the socket takes now."""
        for part in parts:
            self._parts.append(part)
            self.queued_bytes += _size(part)
        if not self._blocked:
            self._pump()

    def close(self) -> None:
        """Drop what is queued; safe to call twice."""
        if self._blocked:
            self._loop.remove_writer(self._socket.fileno())
            self._blocked = False
        self._parts.clear()
        self.queued_bytes = 0

    def _pump(self) -> None:
        try:
            while self._parts:
                self._advance(self._send_some())
        except (BlockingIOError, InterruptedError):
            self._wait()
        except OSError as error:
            self._on_error(error)
        else:
            self._unblock()

    def _wait(self) -> None:
        if not self._blocked:
            self._blocked = True
            self._loop.add_writer(self._socket.fileno(), self._pump)

    def _unblock(self) -> None:
        if self._blocked:
            self._loop.remove_writer(self._socket.fileno())
            self._blocked = False
        self._on_drained()

    def _send_some(self) -> int:
        first = self._parts[0]
        if isinstance(first, FileSlice):
            return self._send_file(first)
        if len(self._parts) == 1:
            return self._socket.send(first)
        buffers: list[bytes | bytearray | memoryview] = []
        for part in self._parts:
            if isinstance(part, FileSlice):
                # More follows at once: let the kernel fill its packet with the file's first bytes.
                return self._socket.sendmsg(buffers, (), socket.MSG_MORE)
            buffers.append(part)
            if len(buffers) == _IOV_MAX:
                break
        return self._socket.sendmsg(buffers)

    def _send_file(self, part: FileSlice) -> int:
        sent = os.sendfile(self._socket.fileno(), part.fd, part.position, part.size)
        if sent == 0:
            raise OSError("the log file ends before the slice that was promised")
        return sent

    def _advance(self, sent: int) -> None:
        self.queued_bytes -= sent
        self.sent_bytes += sent
        parts = self._parts
        while sent:
            first = parts[0]
            size = _size(first)
            if sent >= size:
                parts.popleft()
                sent -= size
                continue
            parts[0] = _rest(first, sent)
            return
        while parts and _size(parts[0]) == 0:
            parts.popleft()


_IOV_MAX: Final = 512


def _size(part: Part) -> int:
    return part.size if isinstance(part, FileSlice) else len(part)


def _rest(part: Part, sent: int) -> Part:
    if isinstance(part, FileSlice):
        return FileSlice(part.file, part.position + sent, part.size - sent)
    return memoryview(part)[sent:]
