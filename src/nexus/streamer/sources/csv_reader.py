"""One CSV file read a block at a time, with the exact place after each block.

Memory is bounded by the block's size, whatever the file's and whatever is in it. Blocking code:
it runs in a thread, and a lock keeps `close` away from a read that is under way.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from nexus.streamer.sources.csv_restart import HEAD_BYTES, Checkpoint, Likeness
from nexus.streamer.sources.port import BLOCK_ROWS_MAX, Block, Position, Rejected
from nexus.telemetry.csv.head import Place, read_head
from nexus.telemetry.csv.reader import RowReader
from nexus.telemetry.csv.rows import Rows, Taken
from nexus.telemetry.csv.text import GzipBytes, PlainBytes, open_text


class CsvReader:
    """Reads one file from a place on."""

    def __init__(
        self,
        path: Path,
        place: Place = Place(),  # noqa: B008 - frozen
        *,
        stream: str | None = None,
        clock: Callable[[], float] = time.time,
        block_bytes: int | None = None,
        block_rows: int = BLOCK_ROWS_MAX,
    ) -> None:
        self.path = path
        self.stream = stream or str(path)
        self._clock = clock
        self._block_bytes = block_bytes
        self._block_rows = min(block_rows, BLOCK_ROWS_MAX)
        self._lock = threading.Lock()
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._open = True
        self.likeness = Likeness.of(self._descriptor)
        self._start = place
        self._text: PlainBytes | GzipBytes | None = None
        self._rows: RowReader | None = None

    def next_blocks(self, final: bool = True) -> list[Block]:
        """The next readings; empty at the end.

        Without `final` the end is only where the file ends by now: a last line without its line
        end waits for the rest.
        """
        taken = self.take(final)
        return [] if taken is None else self.finish(taken)

    def take(self, final: bool = True) -> Taken | None:
        """The first half of `next_blocks`: reads and parses. It may run ahead of the other."""
        with self._lock:
            if not self._open or (self._rows is None and not self._begin(final)):
                return None
            assert self._rows is not None
            taken = self._rows.take(final)
            if taken is not None:
                taken.packed_size = self._packed_size()
            return taken

    def finish(self, taken: Taken) -> list[Block]:
        """The other half: makes blocks of what was taken, each in its turn."""
        assert self._rows is not None
        before = self._position(self._rows.place)
        rows = self._rows.rows(taken)
        return self._blocks(rows, before, self._position(self._rows.place, taken.packed_size))

    def is_cut(self) -> bool:
        """Whether the file was truncated or overwritten since it was opened."""
        with self._lock:
            if not self._open or isinstance(self._text, GzipBytes):
                return False
            size = os.fstat(self._descriptor).st_size
            read_to = self._place.offset + self._pending
            return size < read_to or not self.likeness.begins(self._descriptor)

    def is_at(self, path: Path) -> bool:
        """Whether the name still (or, if the name is gone, nothing else) stands for this file."""
        try:
            return path.stat().st_ino == self.likeness.inode
        except FileNotFoundError:
            return True

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._descriptor)

    def _begin(self, final: bool) -> bool:
        """Read the header and decide the form; False while there is no whole header."""
        head = read_head(self.stream, open_text(self._descriptor), final=final)
        if head is None:
            return False
        place = self._start if self._start.offset >= head.rows.offset else head.rows
        self._text = open_text(self._descriptor, place.offset)
        self._rows = RowReader(
            self._text, head.form, place, clock=self._clock, block_bytes=self._block_bytes
        )
        return True

    def _blocks(self, rows: Rows, before: Position, after: Position) -> list[Block]:
        """A block has a bounded number of rows; the place moves on with the last of them."""
        starts = range(0, max(rows.table.num_rows, 1), self._block_rows)
        blocks = [Block(rows.table.slice(at, self._block_rows), before) for at in starts]
        blocks[-1].position = after
        blocks[-1].rejected = [
            Rejected(row.reason, f"{self.stream}:{row.line}", row.raw) for row in rows.refused
        ]
        return blocks

    def _position(self, place: Place, packed_size: int = 0) -> Position:
        if self.likeness.head_size < HEAD_BYTES:  # it may have grown since
            with self._lock:
                if self._open:
                    self.likeness = Likeness.of(self._descriptor)
        return Checkpoint(place, self.likeness, packed_size).position(self.stream)

    def _packed_size(self) -> int:
        """The size of a gzip of which nothing is left to read; else 0."""
        if not isinstance(self._text, GzipBytes) or not self._text.ended or self._pending:
            return 0
        return os.fstat(self._descriptor).st_size

    @property
    def _pending(self) -> int:
        return 0 if self._rows is None else self._rows.pending

    @property
    def _place(self) -> Place:
        return self._start if self._rows is None else self._rows.place
