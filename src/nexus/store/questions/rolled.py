"""The rollups that there are, and which of them a question can be answered from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

from nexus.store.questions.asking import Asking
from nexus.store.questions.coverage import Rolled
from nexus.store.questions.spans import DAY, HOUR, MINUTE, Stretch, joined, less

WIDTHS: Final = {"rollup_1h": HOUR, "rollup_1m": MINUTE}
_FIRST_DAY: Final = date(1970, 1, 1)


def rollups_for(asking: Asking, asked: Stretch, width: int | None) -> list[Rolled]:
    """The rollups that windows of a width can be made of, the coarsest first; None is any."""
    found = (
        asking.rolled(name, own, asked)
        for name, own in WIDTHS.items()
        if width is None or width % own == 0
    )
    return [rollup for rollup in found if rollup is not None]


def less_removed(removed: Callable[[str], bool], stale: list[Stretch]) -> list[Stretch]:
    """Without days of which readings were removed: what is rolled up is all there is of them."""
    days = {number for s in stale for number in range(s.low // DAY, (s.high - 1) // DAY + 1)}
    names = {(_FIRST_DAY + timedelta(days=number)).isoformat() for number in days}
    return less(stale, joined(day_stretch(name) for name in names if removed(name)))


def day_stretch(name: str) -> Stretch:
    """A day such as 2025-07-18."""
    start = (date.fromisoformat(name) - _FIRST_DAY).days * DAY
    return Stretch(start, start + DAY)
