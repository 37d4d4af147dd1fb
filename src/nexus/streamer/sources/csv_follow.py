"""A CSV file that grows, is cut, or is replaced under its name while it is read.

What is appended is read as soon as its line is whole. A file that was renamed is read to its end
(one look later, since its writer may still hold it) before the new one of its name is begun.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from nexus.streamer.sources.csv_reader import CsvReader
from nexus.streamer.sources.csv_restart import Start, where_to_start
from nexus.streamer.sources.port import Block, Position
from nexus.telemetry.csv.head import Place

OpenReader = Callable[[Start], CsvReader]

# A name that stays away for so many looks belongs to a deleted file, not to a rotation.
_LOOKS_BEFORE_GONE: Final = 20


class FollowedFile:
    """Follows the file of one name; blocking, so it is looked at in a thread."""

    def __init__(self, path: Path, position: Position | None, open_reader: OpenReader) -> None:
        self.path = path
        self.gone = False
        self._open_reader = open_reader
        self._starts = where_to_start(path, position)
        self._reader: CsvReader | None = None
        self._looks_replaced = 0
        self._looks_missing = 0

    def next_blocks(self) -> list[Block]:
        """What is new since the last look; empty when there is nothing."""
        if self._reader is None and not self._open_next():
            return []
        assert self._reader is not None
        if self._starts:  # an older file of this name, which grows no more
            return self._reader.next_blocks() or self._next_file()
        if self._reader.is_cut():
            return self._next_file(Start(self.path, Place()))
        return self._reader.next_blocks(final=False) or self._at_end(self._reader)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _at_end(self, reader: CsvReader) -> list[Block]:
        if not self.path.exists():
            return self._missing(reader)
        self._looks_missing = 0
        if reader.is_at(self.path):
            self._looks_replaced = 0
            return []
        self._looks_replaced += 1
        if self._looks_replaced == 1:
            return []
        return reader.next_blocks() or self._next_file(Start(self.path, Place()))

    def _missing(self, reader: CsvReader) -> list[Block]:
        self._looks_missing += 1
        if self._looks_missing < _LOOKS_BEFORE_GONE:
            return []
        blocks = reader.next_blocks()
        self.gone = not blocks
        return blocks

    def _next_file(self, start: Start | None = None) -> list[Block]:
        if start is not None:
            self._starts.append(start)
        self.close()
        self._looks_replaced = 0
        return self.next_blocks()

    def _open_next(self) -> bool:
        try:
            self._reader = self._open_reader(self._starts[0])
        except FileNotFoundError:
            return False
        self._starts.pop(0)
        return True
