"""Medians and spreads of repeated measurements."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some measurements, and the least and the most of them."""

    median: float
    least: float
    most: float
    count: int


def spread_of(values: Iterable[float]) -> Spread:
    found = sorted(values)
    return Spread(statistics.median(found), found[0], found[-1], len(found))


def percentile(ordered: Sequence[float], share: float) -> float:
    """Of values in order: the least that at least this share does not exceed."""
    rank = max(0, -(-int(share * 1e6) * len(ordered) // 1_000_000) - 1)
    return ordered[min(rank, len(ordered) - 1)]
