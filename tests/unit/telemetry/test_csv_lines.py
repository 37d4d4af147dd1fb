"""Rows are found in bytes exactly where pyarrow finds them."""

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import csv

from nexus.telemetry.csv.lines import RowIndex, first_row, last_row_end, likely_row_ends

messy = st.lists(st.sampled_from([b"a", b",", b'"', b'""', b"\n", b"\r\n", b'",', b',"'])).map(
    b"".join
)


def rows_by_pyarrow(data: bytes) -> int:
    """How many rows pyarrow numbers before a marker; -1 if a quoted cell swallows the marker."""
    seen: list[csv.InvalidRow] = []

    def note(row: csv.InvalidRow) -> str:
        seen.append(row)
        return "skip"

    csv.read_csv(
        pa.BufferReader(data + b"MARK\n"),
        csv.ReadOptions(use_threads=False, column_names=["x"] * 60, block_size=1 << 20),
        csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=note),
        csv.ConvertOptions(column_types={"x": pa.string()}),
    )
    return seen[-1].number - 1 if seen and seen[-1].text == "MARK" else -1


@settings(max_examples=200, deadline=None)
@given(messy)
@example(b'a,"b\nc",d\n')
@example(b'a"b,c\n')
@example(b'"a"b"c,d\n"e""\n""f"\n')
def test_rows_end_where_pyarrow_says(data: bytes) -> None:
    end = last_row_end(data)
    whole = data[:end]
    assert rows_by_pyarrow(whole) == len(RowIndex(whole, -1, 1))
    if end < len(data) and data.endswith(b"\n"):
        assert rows_by_pyarrow(data[end:]) == -1


def test_the_cheapest_guess_is_the_last_line_end() -> None:
    assert next(likely_row_ends(b"a,b\nc,d\ne\n", 9)) == 8


def test_the_next_guess_is_outside_of_quotes() -> None:
    data = b'a,b\nc,"d\ne'
    assert list(likely_row_ends(data, len(data))) == [9, 4]


def test_a_stray_quote_is_no_opening_quote() -> None:
    data = b'5" disk,b\nc,"d\ne'
    assert last_row_end(data) == 10
    assert 10 in likely_row_ends(data, len(data))


@pytest.mark.parametrize("data", [b"", b"abc", b'"abc\n', b'"a""\n,b'])
def test_there_may_be_no_whole_row(data: bytes) -> None:
    assert last_row_end(data) == 0
    assert first_row(data) is None


def test_a_header_may_have_a_line_end_in_quotes() -> None:
    assert first_row(b'"a\nb",c\r\n1,2\n') == b'"a\nb",c\r\n'


def test_rows_know_their_lines_after_cells_with_line_ends() -> None:
    block = b'a\n"b\n\nc",d\ne\r\nf\n'
    index = RowIndex(block, 4, 7)
    assert [index.raw(row) for row in range(4)] == [b"a", b'"b\n\nc",d', b"e", b"f"]
    assert [index.line(row) for row in range(4)] == [7, 8, 11, 12]


def test_rows_know_their_bytes_where_each_is_a_line() -> None:
    index = RowIndex(b"a\nbb\n\nc\n", 4, 1)
    assert [index.span(row) for row in range(4)] == [(0, 2), (2, 5), (5, 6), (6, 8)]
    assert [index.row_at(byte) for byte in (0, 2, 4, 5, 7)] == [0, 1, 1, 2, 3]
