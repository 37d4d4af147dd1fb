"""Cuts a byte stream into length-prefixed frames, without a copy of those that arrive whole.

A frame's length is checked before memory is taken for it, and memory is taken as bytes arrive:
a client that announces much and sends little costs little.
"""

from __future__ import annotations

from collections.abc import Iterator

from nexus.wire.errors import MalformedMessage

LENGTH_BYTES = 4
# A frame up to this size gets its buffer at once; a larger one proves itself by sending.
TRUSTED_BYTES = 1 << 20


class FrameTooLarge(MalformedMessage):
    """Raised when a frame's announced length is negative or over the limit."""


class FrameReader:
    """Holds the unfinished frame of one connection, and nothing between frames."""

    __slots__ = ("_filled", "_limit", "_partial")

    def __init__(self, frame_bytes_max: int) -> None:
        self._limit = frame_bytes_max
        self._partial: bytearray | None = None
        self._filled = 0

    @property
    def held_bytes(self) -> int:
        """Memory held for the unfinished frame."""
        return len(self._partial) if self._partial is not None else 0

    def room(self, scratch: memoryview) -> memoryview:
        """Where the next bytes belong: the unfinished frame's buffer, or the shared scratch."""
        if self._partial is None:
            return scratch
        return memoryview(self._partial)[self._filled :]

    def received(self, scratch: memoryview, count: int) -> Iterator[memoryview]:
        """Frames completed by `count` bytes in `room(scratch)`.

        A frame is valid until the next one is asked for. If the caller stops early, what is left
        is kept and comes out of `pending`.
        """
        if self._partial is None:
            yield from self._cut(scratch[:count])
            return
        self._filled += count
        yield from self.pending()

    def pending(self) -> Iterator[memoryview]:
        """Frames that are already here: those left when a caller stopped early."""
        if not self._has_whole_frame():
            return
        buffer, filled = self._partial, self._filled
        assert buffer is not None
        self._partial, self._filled = None, 0
        yield from self._cut(memoryview(buffer)[:filled])

    def _cut(self, data: memoryview) -> Iterator[memoryview]:
        at, end = 0, len(data)
        try:
            while end - at >= LENGTH_BYTES:
                size = self._checked(
                    int.from_bytes(data[at : at + LENGTH_BYTES], "big", signed=True)
                )
                body = at + LENGTH_BYTES
                if end - body < size:
                    break
                at = body + size
                yield data[body:at]
        except FrameTooLarge:
            at = end
            raise
        finally:
            if at < end:
                self._keep(data[at:])

    def _checked(self, size: int) -> int:
        if not 0 <= size <= self._limit:
            raise FrameTooLarge(f"frame of {size} bytes; at most {self._limit} are accepted")
        return size

    def _keep(self, rest: memoryview) -> None:
        self._partial = bytearray(max(len(rest), LENGTH_BYTES, self._first_room(rest)))
        self._partial[: len(rest)] = rest
        self._filled = len(rest)

    def _first_room(self, rest: memoryview) -> int:
        if len(rest) < LENGTH_BYTES:
            return LENGTH_BYTES
        size = int.from_bytes(rest[:LENGTH_BYTES], "big", signed=True)
        return min(max(size, 0) + LENGTH_BYTES, TRUSTED_BYTES)

    def _has_whole_frame(self) -> bool:
        """Whether the buffer starts with a whole frame; if not, there is room for more of it."""
        buffer, filled = self._partial, self._filled
        if buffer is None or filled < LENGTH_BYTES:
            return False
        size = self._checked(int.from_bytes(buffer[:LENGTH_BYTES], "big", signed=True))
        whole = LENGTH_BYTES + size
        if filled >= whole:
            return True
        if filled == len(buffer):
            larger = bytearray(min(whole, max(2 * filled, TRUSTED_BYTES)))
            larger[:filled] = buffer
            self._partial = larger
        return False
