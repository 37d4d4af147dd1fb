"""Where in a large file a row begins, found by looking around there and not by reading it all.

A line end inside a quoted cell looks like one between rows; a guess is good when the lines after
it are rows by their cells and times. It stays a guess: whoever reads the part before finds out
whether a row ends there, and refuses if not, so no row is ever cut or read twice.
"""

import os
import time
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.csv.forms import Form
from nexus.telemetry.csv.head import sample_rows
from nexus.telemetry.csv.times import NOT_A_TIME, parse_times

_WINDOW_BYTES: Final = 256 << 10
_LINES_TRIED: Final = 16
_ROWS_LOOKED_AT: Final = 4


def split_points(descriptor: int, form: Form, first: int, size: int, part_bytes: int) -> list[int]:
    """Bytes between the first row and the end where rows begin, in even parts of about a size."""
    parts = -(-(size - first) // max(1, part_bytes))
    targets = [first + n * (size - first) // parts for n in range(1, parts)]
    found = (row_start(descriptor, form, target) for target in targets)
    return sorted({point for point in found if point is not None and first < point < size})


def row_start(descriptor: int, form: Form, target: int) -> int | None:
    """The first byte from there on that most likely begins a row; None when none does."""
    window = os.pread(descriptor, _WINDOW_BYTES, target - 1)
    line = window.find(b"\n") + 1
    for _ in range(_LINES_TRIED):
        if not line:
            return None
        if _are_rows(form, sample_rows(window[line:])[:_ROWS_LOOKED_AT]):
            return target - 1 + line
        line = window.find(b"\n", line) + 1
    return None


def _are_rows(form: Form, rows: Sequence[Sequence[str]]) -> bool:
    if not rows or any(len(row) != len(form.names) for row in rows):
        return False
    texts = pa.array([row[form.roles["timestamp"]] for row in rows], pa.string())
    reasons = parse_times(texts, int(time.time() * 1e6)).reasons
    return not pc.any(pc.equal(reasons, NOT_A_TIME)).as_py()
