"""Line protocol, built in columns: what a series says is written once, numbers are joined to it.

A tag cannot be empty, hold a line break or end in a backslash. An empty one is left out, which is
the same to InfluxDB; line breaks, backslashes and the percent sign stand as in a URL, so that no
two texts become one. Texts in fields stand as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.scalars import EMPTY, scalar

LINES: Final = 5_000  # of one request: the server gives one with new series ten seconds
_AS_IN_URLS: Final = str.maketrans(
    {"%": "%25", "\\": "%5C", "\n": "%0A", "\r": "%0D", "\t": "%09", "\0": "%00"}
)
_ESCAPED: Final = str.maketrans({",": "\\,", "=": "\\=", " ": "\\ "})
_IN_TEXT: Final = str.maketrans({"\\": "\\\\", '"': '\\"'})
_BREAK: Final = scalar("\n", pa.string())
_WHOLE: Final = scalar("i", pa.string())
_SPACE: Final = scalar(" ", pa.string())


def tag_text(text: str) -> str:
    """A text as the tag of a point has it; it is asked for in this form too."""
    return text.translate(_AS_IN_URLS)


def series_key(measurement: str, tags: Mapping[str, str]) -> str:
    """The beginning of a line; tags in order, which is how the server wants them."""
    said = (
        f",{name}={tag_text(tags[name]).translate(_ESCAPED)}" for name in sorted(tags) if tags[name]
    )
    return measurement + "".join(said)


def text_field(text: str) -> str:
    """A text as the value of a field."""
    return f'"{text.translate(_IN_TEXT)}"'


def text_fields(column: pa.Array) -> pa.Array:
    """The same of a column."""
    for old, new in (("\\", "\\\\"), ('"', '\\"')):
        column = pc.replace_substring(column, old, new)
    mark = scalar('"', pa.string())
    return pc.binary_join_element_wise(mark, column, mark, EMPTY)


def lines(
    keys: pa.Array, fields: Sequence[tuple[str, pa.Array]], moments: pa.Array
) -> Iterator[memoryview]:
    """Lines for requests: keys, fields whose nulls are left out, and times in microseconds.

    The first field has no nulls. Numbers are doubles or whole, texts as `text_fields` makes them.
    """
    for start in range(0, len(keys), LINES):
        parts: list[pa.Array | pa.Scalar] = [keys.slice(start, LINES)]
        for place, (name, column) in enumerate(fields):
            parts.append(_field("," if place else " ", name, column.slice(start, LINES)))
        parts += [_SPACE, moments.slice(start, LINES).cast(pa.string()), _BREAK]
        yield _bytes_of(pc.binary_join_element_wise(*parts, EMPTY))


def _field(mark: str, name: str, column: pa.Array) -> pa.Array:
    head = scalar(f"{mark}{name}=", pa.string())
    if pa.types.is_integer(column.type):
        said = pc.binary_join_element_wise(head, column.cast(pa.string()), _WHOLE, EMPTY)
    else:
        said = pc.binary_join_element_wise(head, column.cast(pa.string()), EMPTY)
    return pc.fill_null(said, EMPTY) if said.null_count else said


def _bytes_of(rows: pa.Array) -> memoryview:
    """All rows behind one another, which is how Arrow has them."""
    _, offsets, data = rows.buffers()
    ends = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + len(rows) + 1]
    return memoryview(data)[ends[0] : ends[-1]]
