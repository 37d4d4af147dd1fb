"""Fills a page from slices of time, and stops as soon as it is full."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import pyarrow as pa

from nexus.store.errors import TooMuch
from nexus.store.port import Page, Span
from nexus.store.questions.held import Held
from nexus.store.questions.slices import Weight
from nexus.store.questions.spans import Stretch

SLICE_ROWS: Final = 200_000  # that a slice holds at least, since a file costs time to open
SLICE_PAGES: Final = 4
SECONDS_MAX: Final = 20.0

Read = Callable[[Stretch, int], pa.Table]


def filled(
    slices: Iterable[Stretch], read: Read, limit: int, seconds_max: float = SECONDS_MAX
) -> list[pa.Table]:
    """What is read of the slices, in their order, until there are `limit` rows."""
    found: list[pa.Table] = []
    left = limit
    until = time.monotonic() + seconds_max
    for piece in slices:
        rows = read(piece, left)
        found.append(rows)
        left -= rows.num_rows
        if left <= 0:
            break
        if time.monotonic() > until:
            raise TooMuch("too much had to be read for this page: ask for a shorter span")
    return found


def asked(span: Span, page: Page, moment_of_key: int | None, width: int = 1) -> Stretch:
    """The time that a page is about: the span's windows from the page's key on."""
    low, high = span.start_us, span.end_us + 1
    if moment_of_key is not None and page.descending:
        high = min(high, moment_of_key + width)
    elif moment_of_key is not None:
        low = max(low, moment_of_key)
    return Stretch(low, high)


def slice_rows(limit: int) -> float:
    """About how many rows the first slice holds."""
    return float(max(SLICE_ROWS, SLICE_PAGES * limit))


def weights(files: Iterable[Held], share: float, within: Stretch | None = None) -> list[Weight]:
    """What statistics say of files, if a question is about that share of their rows."""
    found = []
    for file in files:
        whole = Stretch(file.low, file.high + 1)
        cut = whole
        if within is not None:
            cut = Stretch(max(whole.low, within.low), min(whole.high, within.high))
        if cut.low < cut.high:
            part = (cut.high - cut.low) / (whole.high - whole.low)
            found.append(Weight(cut, file.rows * share * part))
    return found


def moment_of(after: Sequence[object] | None) -> int | None:
    """The moment in a key that begins with one."""
    return after[0] if after and isinstance(after[0], int) else None
