"""The text of a CSV file as bytes, from any offset; a gzip's after unpacking.

An offset counts the bytes of the text. A file is gzip if it begins like one, whatever its name.
"""

import os
import zlib
from collections.abc import Iterator
from typing import Final, Protocol

GZIP_MAGIC: Final = b"\x1f\x8b"
_READ_BYTES: Final = 1 << 20


class Bytes(Protocol):
    """The text of a file as bytes, in order."""

    trouble: str  # why it ended before its end; "" when it did not

    def read(self, size: int) -> bytes: ...

    def read_into(self, room: memoryview) -> int: ...


class PlainBytes:
    """A plain file's bytes, up to `end` if there is one; a later read sees what was appended."""

    trouble = ""

    def __init__(self, descriptor: int, offset: int, end: int | None = None) -> None:
        self._descriptor = descriptor
        self._offset = offset
        self._end = end

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end."""
        parts = []
        size = self._within(size)
        while size > 0 and (part := os.pread(self._descriptor, size, self._offset)):
            parts.append(part)
            size -= len(part)
            self._offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, room: memoryview) -> int:
        """Fill the room as far as the file goes by now; how far that is."""
        filled = 0
        room = room[: self._within(len(room))]
        while filled < len(room):
            count = os.preadv(self._descriptor, [room[filled:]], self._offset)
            if not count:
                break
            filled += count
            self._offset += count
        return filled

    def _within(self, size: int) -> int:
        return size if self._end is None else max(0, min(size, self._end - self._offset))


class GzipBytes:
    """A gzip's bytes after unpacking; what is whole of a damaged one still comes out."""

    def __init__(self, descriptor: int, offset: int) -> None:
        self.trouble = ""
        self.ended = False  # undamaged
        self._descriptor = descriptor
        self._at = 0
        self._parts = self._unpacked()
        self._left = b""
        self._skip(offset)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end."""
        parts, have = [self._left], len(self._left)
        while have < size and (part := next(self._parts, b"")):
            parts.append(part)
            have += len(part)
        data = b"".join(parts)
        self._left = data[size:]
        return data[:size]

    def read_into(self, room: memoryview) -> int:
        """Fill the room as far as the text goes; how far that is."""
        data = self.read(len(room))
        room[: len(data)] = data
        return len(data)

    def _skip(self, size: int) -> None:
        """A gzip has no way in but from its beginning."""
        while size > 0 and (part := self.read(min(size, _READ_BYTES))):
            size -= len(part)

    def _unpacked(self) -> Iterator[bytes]:
        """Pieces of bounded size, whatever the compression ratio; several members make one text."""
        member, packed = zlib.decompressobj(wbits=31), b""
        while True:
            packed = packed or self._packed()
            if not packed:
                self.trouble = "gzip is cut short"
                return
            spare = member.copy()
            try:
                part = member.decompress(packed, _READ_BYTES)
            except zlib.error:
                yield from _salvaged(spare, packed)
                self.trouble = "gzip is damaged"
                return
            packed = member.unconsumed_tail
            if part:
                yield part
            if member.eof:
                packed = (member.unused_data or self._packed()).lstrip(b"\0")
                if not packed:
                    self.ended = True
                    return
                member = zlib.decompressobj(wbits=31)

    def _packed(self) -> bytes:
        data = os.pread(self._descriptor, _READ_BYTES // 4, self._at)
        self._at += len(data)
        return data


def _salvaged(member: "zlib._Decompress", packed: bytes) -> Iterator[bytes]:
    """What comes out before the damage: zlib gives nothing of a call that fails."""
    for step in (1 << 16, 1 << 12, 1 << 8, 1 << 4, 1):
        while True:
            spare = member.copy()
            try:
                part = member.decompress(packed, step)
            except zlib.error:
                member = spare
                break
            packed = member.unconsumed_tail
            if not part:
                return
            yield part


def is_gzip(descriptor: int) -> bool:
    """Whether a file begins like a gzip."""
    return os.pread(descriptor, 2, 0) == GZIP_MAGIC


def open_text(descriptor: int, offset: int = 0) -> PlainBytes | GzipBytes:
    """The text of an open file from an offset on."""
    kind = GzipBytes if is_gzip(descriptor) else PlainBytes
    return kind(descriptor, offset)
