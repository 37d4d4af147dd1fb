"""What the rollups can answer for at the pinned versions.

A rollup says up to which version of `readings` its windows are right. Readings that came later
make the windows that they belong to stale, until the rollup has caught up.
"""

from __future__ import annotations

from collections.abc import Callable

from nexus.store.delta.following import Pins
from nexus.store.delta.live import Live
from nexus.store.questions.coverage import Rolled
from nexus.store.questions.rolled import day_stretch, less_removed
from nexus.store.questions.spans import SECOND, Stretch, clipped, joined, outer


def rolled(
    name: str,
    width: int,
    asked: Stretch,
    *,
    pins: Pins,
    live: Live,
    removed: Callable[[str], bool],
) -> Rolled | None:
    """What a rollup can answer for; None if it does not exist."""
    closed_s = pins.closed_s(name)
    if closed_s is None:
        return None
    closed = closed_s * SECOND
    arrived = pins.arrivals.after(pins.stands_for(name))
    if arrived is None:
        late = _all_days(pins)
    else:
        low, high = outer(asked, width)
        near = (f for f in arrived if f.low < min(closed, high) and f.high >= low)
        late = [stretch for file in near for stretch in live.minutes(file)]
    windows = joined(outer(stretch, width) for stretch in late)
    stale = less_removed(removed, clipped(windows, *outer(asked, width)))
    return Rolled(name, width, closed, stale)


def _all_days(pins: Pins) -> list[Stretch]:
    """Every day that has readings: nobody knows which of them are new."""
    readings = pins.tables.get("readings")
    days = readings.days if readings is not None else {}
    return [day_stretch(day) for day in days]
