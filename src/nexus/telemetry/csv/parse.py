"""Bytes of a CSV in, columns of its whole rows out; pyarrow parses, this says where to cut.

A marker row after the cut tells whether the cut was right: if it came through as a row of its
own, the rows before it are whole. So nothing but pyarrow itself reads the bytes of a good block.
"""

import secrets
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from nexus.telemetry.csv.forms import BLANKS, Form
from nexus.telemetry.csv.lines import Buffer, RowIndex, last_row_end, likely_row_ends
from nexus.telemetry.reading import ENCODED_TEXT

# No file can hold it: it is made anew in every process.
_MARKER: Final = f"end of block {secrets.token_hex(16)}"
_MARKER_LINE: Final = _MARKER.encode() + b"\n"
MARKER_BYTES: Final = len(_MARKER_LINE)
_Invalid = list[tuple[int, str]]  # rows of too many or too few cells: number and text
_NUMBER: Final = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?$"


@dataclass(slots=True)
class ParsedBlock:
    """The columns of a block's rows, except those that could not be taken apart.

    Rows are counted from 0 in the block's bytes: `misshapen` have too many or too few cells,
    `unreadable` are not UTF-8 text.
    """

    form: Form
    data: Buffer
    size: int  # of the block's rows, the first bytes of the data
    table: pa.Table
    rows: int
    misshapen: list[int]
    unreadable: list[int]
    parsed_before: list[int] = field(init=False)  # each misshapen row: how many of the table

    def __post_init__(self) -> None:
        self.parsed_before = [row - nth for nth, row in enumerate(self.misshapen)]

    @property
    def count(self) -> int:
        return int(self.table.num_rows)

    def physical(self, row: int) -> int:
        """The place in the block's bytes of a row of the table."""
        return row + bisect_right(self.parsed_before, row)

    def cells(self, index: int) -> pa.ChunkedArray:
        """A column of text."""
        column = self.table.column(index)
        if self.form.spaced:
            return pc.utf8_trim_whitespace(column.cast(pa.string()))
        return column

    def text(self, role: str) -> pa.ChunkedArray:
        return self.cells(self.form.roles[role])

    def number(self, index: int) -> pa.Array:
        """A column of numbers; null where there is none."""
        column = one_array(self.table.column(index))
        if not pa.types.is_floating(column.type):
            column = _numbers(self._trimmed(index))
        if pc.all(pc.is_finite(column)).as_py() in (True, None):
            return column
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, pa.float64()))

    def bad_number(self, index: int) -> pa.Array | None:
        """Which cells say something that is no number; None when every one is a number or blank."""
        column = self.table.column(index)
        if pa.types.is_floating(column.type):
            return None
        blank = pc.is_in(self._trimmed(index), value_set=pa.array(BLANKS))
        return pc.and_(pc.is_null(self.number(index)), pc.invert(blank))

    def _trimmed(self, index: int) -> pa.Array:
        """The cells of a number column as text, without blanks and the unit that a tool adds."""
        text = pc.utf8_trim_whitespace(one_array(self.table.column(index)))
        unit = next((m.unit for m in self.form.metrics if m.index == index), "")
        if not unit:
            return text
        has_unit = pc.ends_with(text, pattern=unit)
        bare = pc.utf8_slice_codeunits(text, 0, -len(unit))
        return pc.utf8_trim_whitespace(pc.if_else(has_unit, bare, text))


class BlockParser:
    """Parses the blocks of one file."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._names = [str(i) for i in range(len(form.names))]
        self._numbers_as_text = False
        self._numbered = False

    def parse(self, data: bytearray, size: int) -> ParsedBlock | None:
        """The whole rows in the first bytes of the data; None when there is no whole row.

        The data must have `MARKER_BYTES` of room after them, which may be written to.
        """
        # What follows the first bytes is older text: if there is more of it, look at them alone.
        text = data if size + 2 * MARKER_BYTES >= len(data) else data[:size]
        if not text.isascii() or data.find(b"\0", 0, size) >= 0:
            return self._parse_hard(data, size)
        for end in likely_row_ends(data, size):
            found = self._parse_marked(data, end)
            if found is not None:
                return self._block(data, end, found, [])
        return None

    def _parse_hard(self, data: bytearray, size: int) -> ParsedBlock | None:
        """The same where some bytes may be no text: rows with such bytes are blanked out first."""
        end = last_row_end(data, size)
        if not end:
            return None
        clean, unreadable = _without_unreadable(bytes(memoryview(data)[:end]))
        found = self._parse_marked(clean, end)
        return None if found is None else self._block(data, end, found, unreadable)

    def _block(
        self, data: bytearray, end: int, found: tuple[pa.Table, _Invalid], unreadable: list[int]
    ) -> ParsedBlock:
        table, misshapen = found
        count = table.num_rows + len(misshapen)
        rows = [number - 1 for number, _ in misshapen]
        return ParsedBlock(self._form, data, end, table, count, rows, unreadable)

    def _parse_marked(self, data: bytearray, end: int) -> tuple[pa.Table, _Invalid] | None:
        """The rows before the end, and those of them that are misshapen; None if it is no end."""
        follows = data[end : end + MARKER_BYTES]
        data[end : end + MARKER_BYTES] = _MARKER_LINE
        try:
            table, invalid = self._read(memoryview(data)[: end + MARKER_BYTES])
        finally:
            data[end : end + MARKER_BYTES] = follows
        whole = bool(invalid) and invalid[-1][1] == _MARKER
        return (table, invalid[:-1]) if whole else None

    def _read(self, marked: memoryview) -> tuple[pa.Table, _Invalid]:
        try:
            table, invalid = self._read_once(marked)
        except pa.ArrowInvalid:
            if self._numbers_as_text:
                raise
            # A cell is no number. Where one is there are more: the next blocks go this way too.
            self._numbers_as_text = True
            return self._read(marked)
        if len(invalid) > 1 and not self._numbered:
            self._numbered = True
            return self._read(marked)
        return table, invalid

    def _read_once(self, marked: memoryview) -> tuple[pa.Table, _Invalid]:
        invalid: _Invalid = []

        def on_invalid(row: csv.InvalidRow) -> str:
            invalid.append((row.number, row.text))
            return "skip"

        table = csv.read_csv(
            pa.BufferReader(pa.py_buffer(marked)),
            csv.ReadOptions(
                # Rows are numbered only by a single thread.
                use_threads=not self._numbered,
                block_size=len(marked) + 1,
                column_names=self._names,
            ),
            csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=on_invalid),
            self._convert_options(),
        )
        return table, invalid

    def _convert_options(self) -> csv.ConvertOptions:
        number = pa.string() if self._numbers_as_text else pa.float64()
        types = dict.fromkeys(self._names, ENCODED_TEXT)
        types.update({str(i): number for i in self._form.numbers()})
        if "labels" in self._form.roles:  # mostly compared, seldom looked up
            types[str(self._form.roles["labels"])] = pa.string()
        return csv.ConvertOptions(
            check_utf8=False,
            column_types=types,
            null_values=list(BLANKS),
            strings_can_be_null=False,
        )


def _numbers(text: pa.Array) -> pa.Array:
    is_number = pc.match_substring_regex(text, _NUMBER)
    unsigned = pc.replace_substring_regex(text, r"^\+", "")
    return pc.if_else(is_number, unsigned, pa.scalar(None, pa.string())).cast(pa.float64())


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.array([], column.type)


def _without_unreadable(body: bytes) -> tuple[bytearray, list[int]]:
    """The body with every row blanked out that has a NUL or is not UTF-8, and which rows."""
    clean = bytearray(body) + bytes(MARKER_BYTES)
    at = _first_unreadable(body, 0)
    if at is None:
        return clean, []
    index, rows = RowIndex(body, -1, 0), []
    while at is not None:
        row = index.row_at(at)
        start, end = index.span(row)
        clean[start:end] = b"?" * (end - start - 1) + b"\n"
        rows.append(row)
        at = _first_unreadable(body, end)
    return clean, rows


def _first_unreadable(body: bytes, start: int) -> int | None:
    """The first byte from there on that is a NUL or no part of a UTF-8 text."""
    nul = body.find(b"\0", start)
    end = nul if nul >= 0 else len(body)
    try:
        str(memoryview(body)[start:end], "utf-8")
    except UnicodeDecodeError as error:
        return start + error.start
    return nul if nul >= 0 else None
