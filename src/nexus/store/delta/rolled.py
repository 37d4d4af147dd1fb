"""What the rollups can answer for at the pinned versions.

A rollup says up to which version of `readings` its windows are right. Readings that came later
make the windows that they belong to stale, until the rollup has caught up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Final

from nexus.store.delta.asking import Asking
from nexus.store.delta.coverage import Rolled
from nexus.store.delta.listing import Held
from nexus.store.delta.spans import DAY, HOUR, MINUTE, SECOND, Stretch, clipped, joined, less, outer

WIDTHS: Final = {"rollup_1h": HOUR, "rollup_1m": MINUTE}
_FIRST_DAY: Final = date(1970, 1, 1)


def rollups_for(asking: Asking, asked: Stretch, width: int | None) -> list[Rolled]:
    """The rollups that windows of a width can be made of, the coarsest first; None is any."""
    found = (
        _rolled(asking, name, own, asked)
        for name, own in WIDTHS.items()
        if width is None or width % own == 0
    )
    return [rollup for rollup in found if rollup is not None]


def _rolled(asking: Asking, name: str, width: int, asked: Stretch) -> Rolled | None:
    closed_s = asking.pins.closed_s(name)
    if closed_s is None:
        return None
    closed = closed_s * SECOND
    arrived = asking.pins.arrivals.after(asking.pins.stands_for(name))
    if arrived is None:
        late = _all_days(asking)
    else:
        low, high = outer(asked, width)
        near = (f for f in arrived if f.low < min(closed, high) and f.high >= low)
        late = [stretch for file in near for stretch in _times(asking, file)]
    windows = joined(outer(stretch, width) for stretch in late)
    stale = _less_removed(asking, clipped(windows, *outer(asked, width)))
    return Rolled(name, width, closed, stale)


def _times(asking: Asking, file: Held) -> Iterable[Stretch]:
    return asking.live.minutes(file)


def _all_days(asking: Asking) -> list[Stretch]:
    """Every day that has readings: nobody knows which of them are new."""
    readings = asking.table("readings")
    days = readings.days if readings is not None else {}
    return [_day(day) for day in days]


def _less_removed(asking: Asking, stale: list[Stretch]) -> list[Stretch]:
    """Without days of which readings were removed: what is rolled up is all there is of them."""
    days = {number for s in stale for number in range(s.low // DAY, (s.high - 1) // DAY + 1)}
    names = {(_FIRST_DAY + timedelta(days=number)).isoformat() for number in days}
    return less(stale, joined(_day(name) for name in names if asking.removed(name)))


def _day(name: str) -> Stretch:
    start = (date.fromisoformat(name) - _FIRST_DAY).days * DAY
    return Stretch(start, start + DAY)
