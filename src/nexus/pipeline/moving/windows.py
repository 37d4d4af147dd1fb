"""What readings and rollups say of the minutes of a day, in numbers that can be held together.

For each minute: how many readings each series has, as one sum of the series' numbers; the least,
the greatest, and the sum of all values. Series are dealt to lanes, so that one with large values
does not hide what another says. Hours are minutes put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.moving.checksum import series_of
from nexus.pipeline.moving.port import start_of
from nexus.store.questions.spans import DAY, MINUTE, Stretch

_MINUTES: Final = DAY // MINUTE
_LANES: Final = 64
_SHAPE: Final = (_MINUTES, _LANES)
_ROUNDED: Final = 1e-9  # a mean is a sum that was rounded, in some order

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


class Minutes:
    """The windows of one day: minutes, or hours of which only the first minute is used."""

    def __init__(self, day: str) -> None:
        self._day = day
        self._start = start_of(day)
        self.series = np.zeros(_SHAPE, np.uint64)
        self.count = np.zeros(_SHAPE, np.int64)
        self.least: Floats = np.full(_SHAPE, np.inf)
        self.greatest: Floats = np.full(_SHAPE, -np.inf)
        self.sum: Floats = np.zeros(_SHAPE)
        self.size: Floats = np.zeros(_SHAPE)  # of the values, whatever their signs

    def add_readings(self, rows: pa.Table) -> None:
        values = _floats(rows, "value")
        count = (~np.isnan(values)).astype(np.int64)
        self._add(rows, "timestamp", np.ones(rows.num_rows, np.int64), count, (values,) * 3)

    def add_windows(self, rows: pa.Table) -> None:
        count = rows.column("count").to_numpy()
        values = tuple(_floats(rows, name) for name in ("min", "max", "mean"))
        self._add(rows, "start", count + rows.column("missing").to_numpy(), count, values)

    def hours(self) -> Minutes:
        """The same by the hour."""
        whole = Minutes(self._day)
        for name, fold in _FOLDS.items():
            by_hour = getattr(self, name).reshape(-1, 60, _LANES)
            made = np.repeat(fold.reduce(by_hour, axis=1), 60, axis=0)
            setattr(whole, name, made.astype(by_hour.dtype))
        return whole

    def differing(self, other: Minutes, windows: Sequence[Stretch], width: int) -> list[int]:
        """The starts of those of the windows in which the other says something else."""
        chosen = np.zeros(_MINUTES, np.bool_)
        for low, high in windows:
            starts = np.arange(low, high, width)
            chosen[(starts - self._start) // MINUTE] = True
        same = (self.series == other.series) & (self.count == other.count)
        same &= (self.least == other.least) & (self.greatest == other.greatest)
        with np.errstate(invalid="ignore"):  # sums that are more than a number can be
            near = np.abs(self.sum - other.sum) <= _ROUNDED * np.maximum(self.size, other.size)
            same &= near | ~np.isfinite(self.size) | ~np.isfinite(other.size)
        wrong = np.flatnonzero(chosen & ~same.all(axis=1))
        return [self._start + int(number) * MINUTE for number in wrong]

    def _add(
        self,
        rows: pa.Table,
        moment: str,
        readings: Whole,
        count: Whole,
        values: tuple[Floats, ...],
    ) -> None:
        """Rows that stand for so many readings, so many of them with values, of this size."""
        micros = rows.column(moment).cast(pa.int64()).to_numpy()
        series = series_of(rows)
        at = (micros - self._start) // MINUTE, (series % np.uint64(_LANES)).astype(np.int64)
        np.add.at(self.series, at, series * readings.astype(np.uint64))
        np.add.at(self.count, at, count)
        valued = count > 0
        least, greatest, mean = (each[valued] for each in values)
        at, times = (at[0][valued], at[1][valued]), count[valued].astype(np.float64)
        np.minimum.at(self.least, at, least)
        np.maximum.at(self.greatest, at, greatest)
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(self.sum, at, mean * times)
            np.add.at(self.size, at, np.abs(mean) * times)


_FOLDS: Final[dict[str, Any]] = {
    "series": np.add,
    "count": np.add,
    "least": np.minimum,
    "greatest": np.maximum,
    "sum": np.add,
    "size": np.add,
}


def _floats(rows: pa.Table, name: str) -> Floats:
    found: Floats = pc.cast(rows.column(name), pa.float64()).to_numpy()
    return found
