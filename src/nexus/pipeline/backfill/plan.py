"""Which part of an archive is read by which task, and which tasks make one batch of the store.

The same files give the same plan, so a batch that was stored is known again by what is in it:
after a crash, in a second run, or when files were added to the folder meanwhile.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

from nexus.pipeline.backfill.archive import ArchiveFile
from nexus.pipeline.backfill.splits import split_points

CHUNK_BYTES: Final = 1 << 30
SPLIT_BYTES: Final = 64 << 20

_EDITION: Final = 1  # of what is made of the files: another one reads all of them again
_CHUNK_READINGS: Final = 4_000_000
_CHUNK_PIECES: Final = 10_000
_SPLIT_READINGS: Final = 500_000
_SPLIT_BYTES_MIN: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or the rows from one byte of it up to another; or what is wrong with a file."""

    file: int
    path: str
    version: str
    start: int = 0
    end: int | None = None  # None: of a gzip
    last: bool = True  # of its file
    size: int = 0
    readings: int = 0  # about
    fault: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is stored at once."""

    pieces: tuple[Piece, ...]

    @property
    def app(self) -> str:
        """The name of this chunk and of no other."""
        parts = [(p.path, p.version, p.start, p.end, p.fault) for p in self.pieces]
        said = json.dumps([_EDITION, parts]).encode()
        return f"backfill:{blake2b(said, digest_size=16).hexdigest()}"

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a chunk holds at most, unless one piece alone is larger."""

    size: int = CHUNK_BYTES
    readings: int = _CHUNK_READINGS
    pieces: int = _CHUNK_PIECES


def pieces_of(file: ArchiveFile, split_bytes: int) -> list[Piece]:
    """A file in pieces; a gzip is one, and an empty file none. Without a size nothing is split."""
    whole = Piece(
        file.number,
        file.path,
        file.version,
        size=file.size,
        readings=round(file.size / file.reading_bytes),
        fault=file.fault,
        problem=file.problem,
    )
    if file.fault:
        return [whole]
    if file.form is None:
        return []
    if file.packed:
        return [whole]
    return _parts(whole, [0, *_split_points(file, split_bytes), file.size])


def chunks_of(pieces: Iterable[Piece], limits: Limits) -> list[Chunk]:
    """Pieces in their order, filled into chunks; a file stays in one if it fits into one."""
    chunks = _Chunks(limits)
    for _, group in groupby(pieces, key=lambda piece: piece.file):
        of_file = list(group)
        if chunks.have_room_for(of_file):
            chunks.add(of_file)
            continue
        chunks.close()
        for piece in of_file:
            chunks.fill(piece)
        if not chunks.all_in_one(of_file):
            chunks.close()  # the rest of a large file stays alone: other files may come and go
    return chunks.close()


def in_one_piece(chunks: Sequence[Chunk], at: int, file: int) -> list[Chunk]:
    """The same, with what is left of a file from one chunk on read as one piece of it."""
    left = [piece for chunk in chunks[at:] for piece in chunk.pieces if piece.file == file]
    whole = replace(
        left[0],
        end=left[-1].end,
        last=left[-1].last,
        size=sum(piece.size for piece in left),
        readings=sum(piece.readings for piece in left),
    )
    made = list(chunks[:at])
    for number, chunk in enumerate(chunks[at:]):
        pieces = [piece for piece in chunk.pieces if piece.file != file]
        if number == 0:
            pieces = sorted([*pieces, whole], key=lambda piece: piece.file)
        if pieces:
            made.append(Chunk(tuple(pieces)))
    return made


def tasks_of(pieces: Sequence[Piece], task_bytes: int = SPLIT_BYTES) -> list[tuple[Piece, ...]]:
    """Pieces in shares of about a size: small files go together."""
    shares = _Chunks(Limits(task_bytes, _SPLIT_READINGS))
    for piece in pieces:
        shares.fill(piece)
    return [share.pieces for share in shares.close()]


def to_json(pieces: Iterable[Piece]) -> str:
    return json.dumps([asdict(piece) for piece in pieces])


def from_json(text: str) -> list[Piece]:
    return [Piece(**said) for said in json.loads(text)]


class _Chunks:
    """Chunks that are being filled, the last of them open."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._closed: list[Chunk] = []
        self._open: list[Piece] = []
        self._size = self._readings = 0

    def have_room_for(self, pieces: Sequence[Piece]) -> bool:
        return (
            self._size + sum(piece.size for piece in pieces) <= self._limits.size
            and self._readings + sum(piece.readings for piece in pieces) <= self._limits.readings
            and len(self._open) + len(pieces) <= self._limits.pieces
        )

    def add(self, pieces: Sequence[Piece]) -> None:
        self._open += pieces
        self._size += sum(piece.size for piece in pieces)
        self._readings += sum(piece.readings for piece in pieces)

    def fill(self, piece: Piece) -> None:
        """Add a piece, in a new chunk if the open one has no room for it."""
        if self._open and not self.have_room_for([piece]):
            self.close()
        self.add([piece])

    def all_in_one(self, pieces: Sequence[Piece]) -> bool:
        """Whether the open chunk holds these pieces and no others."""
        return self._open == list(pieces)

    def close(self) -> list[Chunk]:
        """All chunks by now; what comes goes into a new one."""
        if self._open:
            self._closed.append(Chunk(tuple(self._open)))
        self._open, self._size, self._readings = [], 0, 0
        return self._closed


def _split_points(file: ArchiveFile, split_bytes: int) -> list[int]:
    if not split_bytes or file.form is None:
        return []
    dense = max(_SPLIT_BYTES_MIN, round(_SPLIT_READINGS * file.reading_bytes))
    with Path(file.path).open("rb") as opened:
        return split_points(
            opened.fileno(), file.form, file.first, file.size, min(split_bytes, dense)
        )


def _parts(whole: Piece, points: Sequence[int]) -> list[Piece]:
    made = []
    for start, end in pairwise(points):
        share = (end - start) / max(1, whole.size)
        readings = round(whole.readings * share)
        last = end == points[-1]
        made.append(
            replace(whole, start=start, end=end, last=last, size=end - start, readings=readings)
        )
    return made
