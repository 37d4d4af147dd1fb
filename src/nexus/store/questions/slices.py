"""Cuts a span of time into slices that are read one after the other until a page is full.

A page of a long span then reads about as much as the page needs, and not the span. Each slice
holds about twice as many rows as the one before it, as far as the files' statistics tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nexus.store.questions.spans import Stretch, floor


class Weight(NamedTuple):
    """About so many rows, spread evenly over a stretch."""

    stretch: Stretch
    rows: float


def slices(
    asked: Stretch, weights: Iterable[Weight], rows: float, *, width: int = 1, descending: bool
) -> Iterator[Stretch]:
    """The whole of `asked` in slices of about `rows`, twice that, and so on.

    They are cut at multiples of `width`, and come in the order of time, or against it.
    """
    cuts = _cuts(asked, [w for w in weights if w.rows > 0], rows, descending=descending)
    near = asked.high if descending else asked.low
    for cut in cuts:
        at = floor(cut, width)
        if asked.low < at < asked.high and (at < near if descending else at > near):
            yield Stretch(at, near) if descending else Stretch(near, at)
            near = at
    yield Stretch(asked.low, near) if descending else Stretch(near, asked.high)


def _cuts(
    asked: Stretch, weights: Sequence[Weight], rows: float, *, descending: bool
) -> Iterator[int]:
    points, totals = _accumulated(asked, weights)
    whole = float(totals[-1]) if len(totals) else 0.0
    done = rows
    step = 2 * rows
    while done < whole:
        yield int(np.interp(whole - done if descending else done, totals, points))
        done += step
        step *= 2


def _accumulated(asked: Stretch, weights: Sequence[Weight]) -> tuple[list[float], list[float]]:
    """Moments in order, and about how many rows lie before each of them."""
    if not weights:
        return [], []
    lows = np.array([w.stretch.low for w in weights], np.float64)
    highs = np.array([max(w.stretch.high, w.stretch.low + 1) for w in weights], np.float64)
    rates = np.array([w.rows for w in weights], np.float64) / (highs - lows)
    lows, highs = (np.clip(ends, asked.low, asked.high) for ends in (lows, highs))
    points, places = np.unique(np.concatenate([lows, highs]), return_inverse=True)
    changes = np.bincount(places, np.concatenate([rates, -rates]), len(points))
    grown = np.maximum(np.cumsum(changes)[:-1], 0.0) * np.diff(points)
    return points.tolist(), np.concatenate([[0.0], np.cumsum(grown)]).tolist()
