"""Where the rows of a CSV begin and end, in bytes; exactly as pyarrow's parser sees them.

A quote counts only where a field begins, so a quoted cell may hold commas, line ends and doubled
quotes, and a stray quote inside a cell is a character like any other. A line is counted by its
"\\n". Nothing here loops over rows in Python: one pass of a compiled pattern or an Arrow kernel.
"""

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

Buffer = bytes | bytearray

_FIELD: Final = rb'(?:"(?:[^"]++|"")*+"[^,\r\n]*+|(?!")[^,\r\n]*+)'
_LINE_END: Final = rb"(?:\r\n?|\n)"
_ROW: Final = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+" + _LINE_END)
_ROWS: Final = re.compile(rb"(?:" + _FIELD + rb"(?:," + _FIELD + rb")*+" + _LINE_END + rb")*+")


def last_row_end(data: Buffer, size: int | None = None) -> int:
    """The end of the last whole row (0 if there is none), by reading every byte from the start."""
    match = _ROWS.match(data, 0, len(data) if size is None else size)
    return match.end() if match else 0


def first_row(data: bytes) -> bytes | None:
    """The first row with its line end; None when it is not whole."""
    match = _ROW.match(data)
    return match[0] if match else None


def likely_row_ends(data: Buffer, size: int) -> Iterator[int]:
    """Where the last whole row of the first bytes may end, the exact guess last.

    The first guess is wrong only when the data is cut inside a quoted cell that has a line end.
    """
    end = data.rfind(b"\n", 0, size) + 1
    if end:
        yield end
        even = _last_newline_outside_quotes(data, end)
        if 0 < even < end:
            yield even
        exact = last_row_end(data, size)
        if exact not in (0, end, even):
            yield exact


def count_lines(data: Buffer, end: int | None = None) -> int:
    """The line ends in the data, or in its bytes before `end`."""
    return data.count(b"\n", 0, end)


class RowIndex:
    """The bytes and the line number of any row of a block; made only when a row is bad."""

    def __init__(self, block: bytes, rows: int, first_line: int) -> None:
        self._block = block
        self._line = first_line
        self._counted_to = 0
        # As many rows as lines: no cell holds a line end, and the line ends are the rows'.
        self._ends = _newlines(block) if count_lines(block) == rows else _row_ends(block)

    def __len__(self) -> int:
        return len(self._ends)

    def span(self, row: int) -> tuple[int, int]:
        """The first byte of a row and the one after its line end."""
        start = self._ends[row - 1].as_py() if row else 0
        return start, self._ends[row].as_py()

    def row_at(self, byte: int) -> int:
        """The row that has this byte."""
        return int(pc.sum(pc.less_equal(self._ends, byte)).as_py() or 0)

    def raw(self, row: int) -> bytes:
        """A row without its line end."""
        start, end = self.span(row)
        return self._block[start:end].rstrip(b"\r\n")

    def line(self, row: int) -> int:
        """The number of the line where a row begins; rows must be asked for in their order."""
        start, _ = self.span(row)
        self._line += self._block.count(b"\n", self._counted_to, start)
        self._counted_to = start
        return self._line


def _row_ends(block: bytes) -> pa.Array:
    return pa.array(accumulate(map(len, _ROW.findall(block))), pa.int64())


def _newlines(block: bytes) -> pa.Array:
    every = pa.Array.from_buffers(pa.uint8(), len(block), [None, pa.py_buffer(block)])
    found = pc.indices_nonzero(pc.equal(every, pa.scalar(10, pa.uint8())))
    return pc.add(found.cast(pa.int64()), 1)


def _last_newline_outside_quotes(data: Buffer, end: int) -> int:
    """Where every quote is well-formed, a newline after an even number of them ends a row."""
    quotes = data.count(b'"', 0, end)
    while end and quotes % 2:
        before = data.rfind(b"\n", 0, end - 1) + 1
        quotes -= data.count(b'"', before, end)
        end = before
    return end
