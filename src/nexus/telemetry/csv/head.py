"""The beginning of a CSV: its header and some of its first rows, which decide its form.

Of a file that is still being written the header may not be whole yet; then there is no head.
"""

import csv
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from typing import Final

from nexus.telemetry.csv.forms import Form, UnknownCsvForm, detect_form
from nexus.telemetry.csv.lines import count_lines, first_row, last_row_end
from nexus.telemetry.csv.text import Bytes

_HEADER_BYTES_MAX: Final = 256 << 10
_SAMPLE_ROWS: Final = 20
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Place:
    """The start of a row: its offset in the file's text and the number of its line."""

    offset: int = 0
    line: int = 1


@dataclass(frozen=True, slots=True)
class Head:
    """A file's form, and where its rows begin."""

    form: Form
    rows: Place


def read_head(name: str, text: Bytes, *, final: bool = True) -> Head | None:
    """The head of a text, read from its beginning; None when there is none (yet).

    Without `final` more may come: a header, and the wide form's first row, must be whole.
    """
    head = text.read(_HEADER_BYTES_MAX)
    header = first_row(head + b"\n" if final and head and b"\n" not in head else head)
    may_come = not final and len(head) < _HEADER_BYTES_MAX
    if not head.strip(_BOM + b" \r\n") or (header is None and may_come):
        return None
    if header is None or b"\0" in header:
        columns = head[:200].decode("latin-1").splitlines()[:1]
        raise UnknownCsvForm(name, columns, "its first line is no header")
    rest = head[len(header) :]
    form = detect_form(name, header, sample_rows(rest + b"\n" if final else rest))
    if form.wide and not rest and not final:
        return None  # the first rows tell which columns are metrics
    return Head(form, Place(len(header), 1 + count_lines(header)))


def sample_rows(data: bytes) -> list[list[str]]:
    """Some of the first rows, taken apart; only whole ones."""
    text = data[: last_row_end(data)].decode("utf-8", "replace").replace("\0", "")
    with suppress(csv.Error):  # a cell longer than any can be
        return list(islice(csv.reader(StringIO(text, newline="")), _SAMPLE_ROWS))
    return []
