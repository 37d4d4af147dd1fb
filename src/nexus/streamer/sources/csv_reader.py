"""One CSV file read a block at a time, with the exact place after each block.

Memory is bounded by the block's size, whatever the file's and whatever is in it. Blocking code:
it runs in a thread, and a lock keeps `close` away from a read that is under way.
"""

import csv
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Final

from nexus.streamer.sources.csv_files import HEAD_BYTES, GzipBytes, Likeness, PlainBytes, is_gzip
from nexus.streamer.sources.csv_forms import Form, UnknownCsvForm, detect_form
from nexus.streamer.sources.csv_lines import count_lines, first_row, last_row_end
from nexus.streamer.sources.csv_restart import Checkpoint, Place
from nexus.streamer.sources.csv_rows import ROOM_BYTES, RowParser, Rows, Taken
from nexus.streamer.sources.port import BLOCK_ROWS_MAX, Block, Position

LONG_BLOCK_BYTES: Final = 4 << 20
WIDE_BLOCK_BYTES: Final = 1 << 20  # its rows hold many readings each
_HEADER_BYTES_MAX: Final = 256 << 10
_SAMPLE_ROWS: Final = 20
_BOM: Final = b"\xef\xbb\xbf"


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
        self._parser: RowParser | None = None
        self._place = place
        self._bytes: PlainBytes | GzipBytes | None = None
        self._pending = b""
        self._spare: list[bytearray] = []  # buffers to use again: as many as blocks under way
        self._exhausted = False

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
            if not self._open or (self._parser is None and not self._begin(final)):
                return None
            return self._take(final)

    def finish(self, taken: Taken) -> list[Block]:
        """The other half: makes blocks of what was taken, each in its turn."""
        assert self._parser is not None
        rows = self._parser.rows(taken, self._place.line)
        if taken.data:
            self._spare.append(taken.data)
        return self._blocks(rows, taken)

    def is_cut(self) -> bool:
        """Whether the file was truncated or overwritten since it was opened."""
        with self._lock:
            if not self._open or isinstance(self._bytes, GzipBytes):
                return False
            size = os.fstat(self._descriptor).st_size
            read_to = self._place.offset + len(self._pending)
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
                self._pending = b""
                os.close(self._descriptor)

    def _begin(self, final: bool) -> bool:
        """Read the header and decide the form; False while there is no whole header."""
        head = self._bytes_from(0).read(_HEADER_BYTES_MAX)
        header = first_row(head + b"\n" if final and head and b"\n" not in head else head)
        if not head.strip(_BOM + b" \r\n") or (header is None and self._may_come(head, final)):
            return False
        if header is None or b"\0" in header:
            columns = head[:200].decode("latin-1").splitlines()[:1]
            raise UnknownCsvForm(self.stream, columns, "its first line is no header")
        rest = head[len(header) :]
        form = detect_form(self.stream, header, _sample(rest + b"\n" if final else rest))
        if form.wide and not rest and not final:
            return False  # the first rows tell which columns are metrics
        self._start(form, header)
        return True

    def _may_come(self, head: bytes, final: bool) -> bool:
        return not final and len(head) < _HEADER_BYTES_MAX

    def _start(self, form: Form, header: bytes) -> None:
        self._parser = RowParser(self.stream, form, self._clock)
        if self._block_bytes is None:
            self._block_bytes = WIDE_BLOCK_BYTES if form.wide else LONG_BLOCK_BYTES
        if self._place.offset < len(header):
            self._place = Place(len(header), 1 + count_lines(header))
        self._bytes = self._bytes_from(self._place.offset)

    def _bytes_from(self, offset: int) -> PlainBytes | GzipBytes:
        kind = GzipBytes if is_gzip(self._descriptor) else PlainBytes
        return kind(self._descriptor, offset)

    def _take(self, final: bool) -> Taken | None:
        assert self._bytes is not None
        assert self._parser is not None
        assert self._block_bytes is not None
        data = self._spare.pop() if self._spare else bytearray(self._block_bytes + ROOM_BYTES)
        held = len(self._pending)
        data[:held] = self._pending
        fresh = self._bytes.read_into(memoryview(data)[held : self._block_bytes])
        ended = held + fresh < self._block_bytes
        taken = None
        if fresh or (final and held):
            taken = self._parser.take(data, held + fresh, final=final and ended, full=not ended)
        self._pending = bytes(memoryview(data)[taken.size if taken else 0 : held + fresh])
        if taken is None:
            self._spare.append(data)
            return None if fresh or not ended else self._trouble()
        taken.packed_size = self._packed_size()
        return taken

    def _trouble(self) -> Taken | None:
        """What is wrong with the file itself, said once where its text ends."""
        assert self._bytes is not None
        if not self._bytes.trouble or self._exhausted:
            return None
        self._exhausted = True
        return Taken(bytearray(), 0, trouble=self._bytes.trouble)

    def _blocks(self, rows: Rows, taken: Taken) -> list[Block]:
        """A block has a bounded number of rows; the place moves on with the last of them."""
        before = self._position(0)
        self._place = Place(self._place.offset + taken.size, self._place.line + rows.lines)
        starts = range(0, max(rows.table.num_rows, 1), self._block_rows)
        blocks = [Block(rows.table.slice(at, self._block_rows), before) for at in starts]
        blocks[-1].position = self._position(taken.packed_size)
        blocks[-1].rejected = rows.rejected
        return blocks

    def _position(self, packed_size: int) -> Position:
        if self.likeness.head_size < HEAD_BYTES:  # it may have grown since
            with self._lock:
                if self._open:
                    self.likeness = Likeness.of(self._descriptor)
        return Checkpoint(self._place, self.likeness, packed_size).position(self.stream)

    def _packed_size(self) -> int:
        """The size of a gzip of which nothing is left to read; else 0."""
        if not isinstance(self._bytes, GzipBytes) or not self._bytes.ended or self._pending:
            return 0
        return os.fstat(self._descriptor).st_size


def _sample(rest: bytes) -> list[list[str]]:
    """Some of the first rows, taken apart; only whole ones."""
    text = rest[: last_row_end(rest)].decode("utf-8", "replace").replace("\0", "")
    with suppress(csv.Error):  # a cell longer than any can be
        return list(islice(csv.reader(StringIO(text, newline="")), _SAMPLE_ROWS))
    return []
