"""What a table is made of, as questions see it: pieces with bounds, before any row is read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TICK: Final = timedelta(microseconds=1)


class Held(NamedTuple):
    """A file and what statistics say of the rows in it; bounds may be wider than the rows."""

    path: str
    rows: int
    size: int
    low: int  # of the table's time, both ends in
    high: int
    uuids: tuple[str, str] | None

    def may_hold(self, uuids: Sequence[str]) -> bool:
        """Whether one of these GPUs, which are in order, can have a row; any if there are none."""
        if not uuids or self.uuids is None:
            return True
        low, high = self.uuids
        first = bisect_left(uuids, low)
        return first < len(uuids) and uuids[first] <= high


def moment(micros: int) -> datetime:
    """A whole number as a moment; one beyond the calendar is its end."""
    try:
        return EPOCH + micros * TICK
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if micros > 0 else datetime.min.replace(tzinfo=UTC)
