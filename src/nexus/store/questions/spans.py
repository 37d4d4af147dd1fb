"""Spans of time as whole microseconds, half open, and what is done with lists of them.

Lists are in order and their spans do not touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


class Stretch(NamedTuple):
    """Time from `low` up to, and without, `high`."""

    low: int
    high: int


def floor(moment: int, width: int) -> int:
    """The start of the window that a moment lies in."""
    return moment - moment % width


def ceiling(moment: int, width: int) -> int:
    """The first start of a window that is not before a moment."""
    return -floor(-moment, width)


def outer(stretch: Stretch, width: int) -> Stretch:
    """All windows that a stretch touches."""
    return Stretch(floor(stretch.low, width), ceiling(stretch.high, width))


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The same time in as few stretches as can be, in order."""
    found: list[Stretch] = []
    for stretch in sorted(stretches):
        if found and stretch.low <= found[-1].high:
            found[-1] = Stretch(found[-1].low, max(found[-1].high, stretch.high))
        elif stretch.low < stretch.high:
            found.append(stretch)
    return found


def clipped(stretches: Iterable[Stretch], low: int, high: int) -> list[Stretch]:
    """What of the stretches lies in [low, high)."""
    cut = (Stretch(max(s.low, low), min(s.high, high)) for s in stretches)
    return [stretch for stretch in cut if stretch.low < stretch.high]


def inner(stretches: Iterable[Stretch], width: int) -> list[Stretch]:
    """The windows that lie in the stretches whole."""
    cut = (Stretch(ceiling(s.low, width), floor(s.high, width)) for s in stretches)
    return [stretch for stretch in cut if stretch.low < stretch.high]


def less(stretches: Sequence[Stretch], taken: Sequence[Stretch]) -> list[Stretch]:
    """What is left of the stretches when others are taken away."""
    left: list[Stretch] = []
    for stretch in stretches:
        low = stretch.low
        for away in clipped(taken, stretch.low, stretch.high):
            if low < away.low:
                left.append(Stretch(low, away.low))
            low = max(low, away.high)
        if low < stretch.high:
            left.append(Stretch(low, stretch.high))
    return left
