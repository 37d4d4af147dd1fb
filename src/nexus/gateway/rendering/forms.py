"""The forms that an answer can have, and which of them a client takes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from nexus.gateway.errors import NotAcceptable
from nexus.gateway.rendering.json_rows import python_values

_ACCEPT_MAX: Final = 32  # media ranges that are looked at


class Form(StrEnum):
    """A media type that tables can be written in."""

    JSON = "application/json"
    CSV = "text/csv"
    ARROW = "application/vnd.apache.arrow.stream"

    @property
    def content_type(self) -> str:
        return "text/csv; charset=utf-8; header=present" if self is Form.CSV else self.value


TABLE_FORMS: Final = tuple(Form)
JSON_ONLY: Final = (Form.JSON,)


def accepted(header: str | None, offered: Sequence[Form]) -> Form:
    """The offered form that an Accept header likes best, the first one where it is all the same."""
    if header is None or not header.strip():
        return offered[0]
    ranges = qualities(header)
    liking = {form: _liking(form, ranges) for form in offered}
    best = max(offered, key=lambda form: liking[form])
    if liking[best] <= 0:
        raise NotAcceptable(
            f"the answer can be had as {', '.join(offered)}; Accept asks for {header[:200]}"
        )
    return best


def qualities(header: str) -> list[tuple[str, float]]:
    """The names of a header such as `text/csv;q=0.5, */*`, each with how much it is liked."""
    return [_quality(part) for part in header.split(",")[:_ACCEPT_MAX]]


def csv_text(table: pa.Table) -> bytes:
    """A table as CSV: one header line, text in quotes, nothing for what is not there."""
    columns = [_flat(table.column(name)) for name in table.column_names]
    buffer = io.BytesIO()
    pa_csv.write_csv(
        pa.table(columns, names=table.column_names),
        buffer,
        pa_csv.WriteOptions(quoting_header="none"),
    )
    return buffer.getvalue()


def arrow_stream(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as stream:
        stream.write_table(table)
    return buffer.getvalue()


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_timestamp(column.type):
        return pa.array(python_values(column), pa.string())
    return column


def _quality(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
    try:
        value = float(quality)
    except ValueError:
        value = 0.0
    return name, value if 0.0 <= value <= 1.0 else 0.0


def _liking(form: Form, ranges: Sequence[tuple[str, float]]) -> float:
    """By the most exact range that fits the form, as the standard has it."""
    family = form.value.partition("/")[0]
    for name in (form.value, f"{family}/*", "*/*"):
        found = [quality for said, quality in ranges if said == name]
        if found:
            return max(found)
    return 0.0
