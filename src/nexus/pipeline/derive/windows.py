"""Which windows of time must be computed, as decisions without a clock, a table or Spark.

Moments are whole microseconds since 1970, spans are half open. All windows before `closed` are
stored; a window that is stored is computed again when readings come that belong to it, and one
that is not is computed when it closes.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Time from `low` up to, and without, `high`."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Held:
    """What statistics say of a file: how many rows, with times from `low` to `high`, both in."""

    low: int
    high: int
    rows: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Windows that are computed together and committed at once."""

    spans: tuple[Span, ...]
    rows: int  # how many readings lie in them, about

    @property
    def hull(self) -> Span:
        return Span(self.spans[0].low, self.spans[-1].high)


def micros(moment: datetime) -> int:
    """A moment as a whole number."""
    return (moment - _EPOCH) // _TICK


def moment_of(number: int) -> datetime:
    """A whole number as a moment."""
    return _EPOCH + number * _TICK


def floor(moment: int, width: int) -> int:
    """The start of the window that a moment lies in."""
    return moment - moment % width


def next_closed(closed: int | None, now: int, grace: int, width: int, end: int | None) -> int:
    """Up to where windows close now; `end` is the last reading's moment.

    A window closes when it is over for as long as `grace`. Where there are no readings yet,
    nothing closes: they would all come late.
    """
    over = floor(now - grace, width)
    reached = 0 if end is None else floor(end, width) + width
    return max(closed or 0, min(over, reached))


def windows_of(files: Iterable[Held], width: int) -> list[Span]:
    """The windows that hold all rows of these files, neighbours joined."""
    return merged(Span(floor(f.low, width), floor(f.high, width) + width) for f in files)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same time in as few spans as can be, in order."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.low <= joined[-1].high:
            joined[-1] = Span(joined[-1].low, max(joined[-1].high, span.high))
        elif span.low < span.high:
            joined.append(span)
    return joined


def clipped(spans: Iterable[Span], low: int | None, high: int | None) -> list[Span]:
    """What of the spans lies in [low, high); None is open."""
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    cut = (Span(int(max(s.low, least)), int(min(s.high, most))) for s in spans)
    return [span for span in cut if span.low < span.high]


def is_sparse(file: Held, width: int, rows: int) -> bool:
    """Whether a file has so few rows that most windows it spans may hold none of them."""
    return file.rows < rows * ((file.high - file.low) // width + 1)


def overlaps(spans: Sequence[Span], low: int, high: int) -> bool:
    """Whether a file with times from `low` to `high` may hold rows of the spans (in order)."""
    after = bisect_right(spans, high, key=lambda span: span.low)
    return after > 0 and spans[after - 1].high > low


@dataclass(frozen=True)
class Touched:
    """Windows that new readings belong to, and of which GPUs those are, where that is known."""

    whole: Sequence[Span]  # of any GPU
    exact: Mapping[int, frozenset[str] | None]  # by a window's start; None is any GPU
    width: int

    def spans(self) -> list[Span]:
        exact = (Span(start, start + self.width) for start in self.exact)
        return merged([*self.whole, *exact])

    def gpus(self, piece: Piece, most: int) -> frozenset[str] | None:
        """The GPUs that a piece must be computed for; None when it is for all, or too many."""
        if any(overlaps(piece.spans, span.low, span.high - 1) for span in self.whole):
            return None
        found: set[str] = set()
        for start, uuids in self.exact.items():
            if not overlaps(piece.spans, start, start):
                continue
            if uuids is None:
                return None
            found.update(uuids)
            if len(found) > most:
                return None
        return frozenset(found)


def pieces(spans: Sequence[Span], files: Sequence[Held], rows_max: int, unit: int) -> list[Piece]:
    """The spans cut into pieces of about `rows_max` readings, in order of time.

    Nothing is cut but at multiples of `unit`, however many readings that makes.
    """
    cells = _cells(spans, unit)
    if not cells:
        return []
    weights = _weights(cells, files)
    made: list[Piece] = []
    held: list[Span] = []
    held_rows = 0.0
    for cell, weight in zip(cells, weights, strict=True):
        if held and held_rows + weight > rows_max:
            made.append(Piece(tuple(merged(held)), round(held_rows)))
            held, held_rows = [], 0.0
        held.append(cell)
        held_rows += weight
    return [*made, Piece(tuple(merged(held)), round(held_rows))]


def _cells(spans: Sequence[Span], unit: int) -> list[Span]:
    """The spans cut at every multiple of `unit`."""
    return [
        Span(max(span.low, start), min(span.high, start + unit))
        for span in spans
        for start in range(floor(span.low, unit), span.high, unit)
    ]


def _weights(cells: Sequence[Span], files: Sequence[Held]) -> list[float]:
    """About how many rows each cell holds, if a file's rows are spread evenly over its time."""
    if not files:
        return [0.0] * len(cells)
    lows = np.array([file.low for file in files], dtype=np.float64)
    highs = np.array([file.high + 1 for file in files], dtype=np.float64)
    rates = np.array([file.rows for file in files], dtype=np.float64) / (highs - lows)
    points, places = np.unique(np.concatenate([lows, highs]), return_inverse=True)
    changes = np.bincount(places, np.concatenate([rates, -rates]), len(points))
    grown = np.cumsum(changes)[:-1] * np.diff(points)
    total = np.concatenate([[0.0], np.cumsum(grown)])
    ends = np.interp([float(c.high) for c in cells], points, total)
    starts = np.interp([float(c.low) for c in cells], points, total)
    return [float(weight) for weight in np.maximum(ends - starts, 0.0)]
