"""The files of a CSV source: which there are, their bytes from any offset, and their likeness.

An offset counts the bytes of the text, so in a gzip those after unpacking. A file is gzip if it
begins like one, whatever its name.
"""

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from nexus.streamer.errors import StreamerError

GZIP_MAGIC: Final = b"\x1f\x8b"
HEAD_BYTES: Final = 1024
_READ_BYTES: Final = 1 << 20
_SUFFIXES: Final = (".csv", ".csv.gz")


class NoSuchFiles(StreamerError):
    """Raised when a path or a pattern names no file."""

    exit_code = 2


def find_files(location: str) -> list[Path]:
    """The files that a path, a directory (its *.csv and *.csv.gz) or a pattern names, sorted."""
    path = Path(location)
    if path.is_dir():
        return sorted(p for p in path.iterdir() if p.name.endswith(_SUFFIXES) and p.is_file())
    if path.exists() or not is_pattern(location):
        return [path] if path.exists() else []
    found = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    return sorted(p for p in found if p.is_file())


def is_pattern(location: str) -> bool:
    """Whether a location has characters of a pattern (a file may be named with them too)."""
    return any(character in location for character in "*?[")


@dataclass(frozen=True, slots=True)
class Likeness:
    """What tells a file from another one that took its name: its inode and its first bytes."""

    inode: int
    head_size: int
    head_crc: int

    @classmethod
    def of(cls, descriptor: int) -> "Likeness":
        head = os.pread(descriptor, HEAD_BYTES, 0)
        return cls(os.fstat(descriptor).st_ino, len(head), zlib.crc32(head))

    def begins(self, descriptor: int) -> bool:
        """Whether the file begins with the same bytes (it may have grown since)."""
        head = os.pread(descriptor, self.head_size, 0)
        return len(head) == self.head_size and zlib.crc32(head) == self.head_crc


class Bytes(Protocol):
    """The text of a file as bytes, in order."""

    trouble: str  # why it ended before its end; "" when it did not

    def read(self, size: int) -> bytes: ...

    def read_into(self, room: memoryview) -> int: ...


class PlainBytes:
    """A plain file's bytes; a later read sees what was appended meanwhile."""

    trouble = ""

    def __init__(self, descriptor: int, offset: int) -> None:
        self._descriptor = descriptor
        self._offset = offset

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end."""
        parts = []
        while size > 0 and (part := os.pread(self._descriptor, size, self._offset)):
            parts.append(part)
            size -= len(part)
            self._offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, room: memoryview) -> int:
        """Fill the room as far as the file goes by now; how far that is."""
        filled = 0
        while filled < len(room):
            count = os.preadv(self._descriptor, [room[filled:]], self._offset)
            if not count:
                break
            filled += count
            self._offset += count
        return filled


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


def text_size(path: Path) -> int:
    """The bytes of a file's text, as near as can be known without reading it."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not is_gzip(file.fileno()) or size < 18:
            return size
        said = int.from_bytes(os.pread(file.fileno(), 4, size - 4), "little")
        return max(said, size)
