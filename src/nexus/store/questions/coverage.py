"""Which table answers for which time, as a decision without a table or a clock.

A rollup answers for windows that it has closed and that no reading has come to since the version
it stands for; the next finer table answers for the others, and readings for what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from nexus.store.questions.spans import Stretch, clipped, inner, less

# Of one rollup: late readings can leave many holes in it, and each makes a query longer.
STRETCHES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Rolled:
    """What a rollup has: windows before `closed`, less those that are out of date."""

    table: str
    width: int
    closed: int
    stale: Sequence[Stretch] = ()  # whole windows


@dataclass(frozen=True, slots=True)
class Coverage:
    """The time that each table answers for; together it is all of the time asked for."""

    rolled: Sequence[tuple[Rolled, Sequence[Stretch]]] = field(default_factory=list)
    raw: Sequence[Stretch] = ()


def coverage(asked: Stretch, rollups: Sequence[Rolled]) -> Coverage:
    """Who answers for what; rollups come the coarsest first."""
    left = [asked]
    parts: list[tuple[Rolled, Sequence[Stretch]]] = []
    for rollup in rollups:
        whole = inner(clipped(left, asked.low, rollup.closed), rollup.width)
        fresh = _longest(less(whole, rollup.stale))
        if fresh:
            parts.append((rollup, fresh))
            left = less(left, fresh)
    return Coverage(parts, left)


def _longest(stretches: list[Stretch]) -> list[Stretch]:
    """The longest of too many stretches, in order; finer tables answer for the others."""
    if len(stretches) <= STRETCHES_MAX:
        return stretches
    by_length = sorted(stretches, key=lambda s: s.high - s.low, reverse=True)
    return sorted(by_length[:STRETCHES_MAX])
