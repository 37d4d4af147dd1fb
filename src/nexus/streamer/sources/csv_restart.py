"""Where to go on in a CSV file, and whether it is still that file.

A state is kept only while the file begins with the same bytes. If its name was taken by another
file meanwhile (a rotation while nobody read), the old one is looked for beside it and read to its
end first; if it is gone or was cut, the file of that name is read from its beginning.
"""

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nexus.streamer.sources.port import Json, Position
from nexus.telemetry.csv.head import Place
from nexus.telemetry.csv.text import is_gzip

HEAD_BYTES: Final = 1024


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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A place in one certain file."""

    place: Place
    likeness: Likeness
    packed_size: int = 0  # of a gzip that was read to its end; it need not be unpacked again

    def position(self, stream: str) -> Position:
        state: dict[str, Json] = {
            "offset": self.place.offset,
            "line": self.place.line,
            "inode": self.likeness.inode,
            "head_size": self.likeness.head_size,
            "head_crc": self.likeness.head_crc,
            "packed_size": self.packed_size,
        }
        return Position(stream, state)

    @classmethod
    def of(cls, state: Mapping[str, Json]) -> "Checkpoint | None":
        """What a position's state says; None when it says nothing that can be used."""
        names = ("offset", "line", "inode", "head_size", "head_crc", "packed_size")
        numbers = [state.get(name) for name in names]
        if not all(type(number) is int and number >= 0 for number in numbers):
            return None
        offset, line, inode, head_size, head_crc, packed = (int(str(n)) for n in numbers)
        return cls(Place(offset, line), Likeness(inode, head_size, head_crc), packed)


@dataclass(frozen=True, slots=True)
class Start:
    """A file to read, and where from."""

    path: Path
    place: Place


def where_to_start(path: Path, position: Position | None) -> list[Start]:
    """What to read for a file's name: mostly that file; after a rotation the old one before it."""
    checkpoint = Checkpoint.of(position.state) if position else None
    if checkpoint is None:
        return [Start(path, Place())]
    if _continues(path, checkpoint):
        return [Start(path, checkpoint.place)]
    rotated = _rotated(path, checkpoint)
    fresh = Start(path, Place())
    return [Start(rotated, checkpoint.place), fresh] if rotated else [fresh]


def is_done(path: Path, position: Position | None) -> bool:
    """Whether a file is a gzip that was read to its end before and has not changed since."""
    checkpoint = Checkpoint.of(position.state) if position else None
    if checkpoint is None or not checkpoint.packed_size or not _continues(path, checkpoint):
        return False
    return path.stat().st_size == checkpoint.packed_size


def _rotated(path: Path, checkpoint: Checkpoint) -> Path | None:
    """The file that had the name before, if it stands beside under a longer name."""
    for beside in sorted(path.parent.iterdir()):
        if not beside.name.startswith(path.stem) or beside == path or not beside.is_file():
            continue
        same = beside.stat().st_ino == checkpoint.likeness.inode
        if same and _continues(beside, checkpoint):
            return beside
    return None


def _continues(path: Path, checkpoint: Checkpoint) -> bool:
    try:
        with path.open("rb") as file:
            whole = (
                is_gzip(file.fileno()) or os.fstat(file.fileno()).st_size >= checkpoint.place.offset
            )
            return whole and checkpoint.likeness.begins(file.fileno())
    except OSError:
        return False
