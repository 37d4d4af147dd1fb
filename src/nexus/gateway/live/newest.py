"""The newest reading of each series, for who cannot or will not take them all."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nexus.telemetry.combine import combine
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import encoded

_KEYS_MAX: Final = 1 << 62


def newest(table: pa.Table) -> pa.Table:
    """One row a series (LIVE_SCHEMA), the last of those with its greatest time; order is kept."""
    if table.num_rows < 2:
        return table
    keys = _series(table)
    times = table.column("timestamp").to_numpy()
    order = np.lexsort((times, keys))
    sorted_keys = keys[order]
    is_last = np.append(sorted_keys[1:] != sorted_keys[:-1], True)
    if is_last.all():
        return table
    return table.take(pa.array(np.sort(order[is_last])))


def _series(table: pa.Table) -> npt.NDArray[np.int64]:
    """A number for each row, equal for rows of one series."""
    columns = [encoded(table.column(name)) for name in SERIES_COLUMNS]
    widths = [max(1, len(column.dictionary)) for column in columns]
    if reduce(mul, widths) >= _KEYS_MAX:
        return np.asarray(combine(columns).codes.to_numpy(), np.int64)
    keys = np.zeros(table.num_rows, np.int64)
    for column, width in zip(columns, widths, strict=True):
        if width > 1:
            keys = keys * width + column.indices.to_numpy()
    return keys
