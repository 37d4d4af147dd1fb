"""The first half of grouping, where rows are read: of many readings, the little that groups need.

It runs in Arrow and numpy on the columns as they come out of the files, so that only a row for
each series, or each series and window, crosses Spark. Readings of one group may be in several
files: the second half, in Spark, puts the parts together (`rollup`, `latest`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.reading import TIMESTAMP

Numbers = npt.NDArray[np.int64]
LONG_AGO: Final = np.iinfo(np.int64).min

# What is known of some readings of a series in a window. Its context is that of the last of them.
WINDOW_PART: Final = pa.schema(
    [
        pa.field("start", TIMESTAMP),
        pa.field("newest", TIMESTAMP),  # of all readings
        pa.field("missing", pa.int64()),
        pa.field("total", pa.float64()),
        pa.field("last", pa.float64()),
        pa.field("last_timestamp", TIMESTAMP),  # of those with a value
        pa.field("values", pa.list_(pa.float64())),
    ]
)


@dataclass(frozen=True)
class Reduced:
    """The row of each group that tells its context, and columns with a value for each group."""

    rows: pa.Array
    columns: Mapping[str, pa.Array]


class Reduce(Protocol):
    """Makes fewer rows of readings, given the number of the series of each."""

    def __call__(self, readings: pa.Table, series: Numbers) -> Reduced: ...


def by_window(width: int) -> Reduce:
    """A row for each series and window; reads `timestamp` and `value`."""
    return partial(_by_window, width)


def _by_window(width: int, readings: pa.Table, series: Numbers) -> Reduced:
    moment = _ticks(readings, "timestamp")
    window = moment // width
    since = int(window.min())
    groups = _Groups(series * (int(window.max()) - since + 1) + (window - since))
    time, value = moment[groups.order], _floats(readings, "value")[groups.order]
    there = ~np.isnan(value)  # null: a stored value is never NaN
    counts = groups.sum(there)
    newest = groups.greatest(time)
    last = groups.greatest(np.where(there, time, LONG_AGO))
    with np.errstate(over="ignore", invalid="ignore"):  # the second half looks after it
        total = groups.sum(np.where(there, value, 0.0))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    nothing = counts == 0
    return Reduced(
        pa.array(groups.order[newest]),
        {
            "start": pa.array(window[groups.order[newest]] * width).cast(TIMESTAMP),
            "newest": pa.array(time[newest]).cast(TIMESTAMP),
            "missing": pa.array(groups.sizes - counts),
            "total": pa.array(total),
            "last": pa.array(value[last], mask=nothing),
            "last_timestamp": pa.array(time[last], mask=nothing).cast(TIMESTAMP),
            "values": pa.ListArray.from_arrays(pa.array(ends), pa.array(value[there])),
        },
    )


def last_of_each(first: str) -> Reduce:
    """The last reading of each series, whole, and in the column `first` when they begin."""
    return partial(_last_of_each, first)


def _last_of_each(first: str, readings: pa.Table, series: Numbers) -> Reduced:
    groups = _Groups(series)
    time = _ticks(readings, "timestamp")[groups.order]
    rows = pa.array(groups.order[groups.greatest(time)])
    columns = {
        field.name: readings.column(field.name).combine_chunks().take(rows)
        for field in readings.schema
        if not pa.types.is_dictionary(field.type)
    }
    return Reduced(rows, {**columns, first: pa.array(groups.least(time)).cast(TIMESTAMP)})


class _Groups:
    """Rows in the order of their groups: each function takes values in that order."""

    def __init__(self, keys: Numbers) -> None:
        codes = pa.array(keys).dictionary_encode().indices
        self.order: Numbers = pc.sort_indices(codes).to_numpy().astype(np.int64)
        self.sizes: Numbers = np.bincount(codes.to_numpy()).astype(np.int64)
        self._starts: Numbers = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)
        self._group: Numbers = np.repeat(np.arange(len(self.sizes)), self.sizes)

    def sum(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        kind = np.int64 if values.dtype == np.bool_ else values.dtype
        summed: npt.NDArray[Any] = np.add.reduceat(values, self._starts, dtype=kind)
        return summed

    def least(self, values: Numbers) -> Numbers:
        found: Numbers = np.minimum.reduceat(values, self._starts)
        return found

    def greatest(self, values: Numbers) -> Numbers:
        """Where the greatest value of each group stands."""
        most = np.maximum.reduceat(values, self._starts)
        places = np.flatnonzero(values == most[self._group])
        found = np.empty(len(self.sizes), np.int64)
        found[self._group[places]] = places
        return found


def _ticks(table: pa.Table, name: str) -> Numbers:
    ticks: Numbers = table.column(name).cast(pa.int64()).to_numpy()
    return ticks


def _floats(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    floats: npt.NDArray[np.float64] = table.column(name).to_numpy()
    return floats
