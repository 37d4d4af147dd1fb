"""Readings by series, for charts: one list of times and one of values for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from nexus.telemetry.combine import combine

SERIES_FIELDS: Final = (
    "metric",
    "unit",
    "uuid",
    "gpu",
    "hostname",
    "mig",
    "instance",
    "namespace",
    "pod",
    "container",
)
_MEASURES: Final = ("value", "min", "max")  # the last two of what is rolled up
CHART_COLUMNS: Final = (*SERIES_FIELDS, "timestamp", *_MEASURES)
_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY


def series_document(table: pa.Table, resolution: str, *, truncated: bool) -> bytes:
    """`{"resolution", "series": […], "truncated"}`; times are in milliseconds and ascend."""
    measures = [name for name in _MEASURES if name in table.column_names]
    series = _series(table, SERIES_FIELDS, measures)
    document = {"resolution": resolution, "series": series, "truncated": truncated}
    return orjson.dumps(document, option=_OPTIONS)


def groups_document(
    table: pa.Table, by: Sequence[str], resolution: str, *, truncated: bool
) -> bytes:
    """`{"resolution", "groups": […], "truncated"}`; times are in milliseconds and ascend."""
    groups = _series(table, (*by, "unit"), ("value", "sum", "min", "max", "members"))
    document = {"resolution": resolution, "groups": groups, "truncated": truncated}
    return orjson.dumps(document, option=_OPTIONS)


def columns_document(table: pa.Table, names: Sequence[str], *, truncated: bool) -> bytes:
    """`{"data": {column: […]}, "count", "truncated"}`; moments are in milliseconds."""
    data = {name: _column(table.column(name)) for name in names}
    document = {"data": data, "count": table.num_rows, "truncated": truncated}
    return orjson.dumps(document, option=_OPTIONS)


def _series(
    table: pa.Table, fields: Sequence[str], measures: Sequence[str]
) -> list[dict[str, Any]]:
    if not table.num_rows:
        return []
    combined = combine([table.column(name) for name in fields])
    codes = combined.codes.to_numpy()
    times = _milliseconds(table.column("timestamp"))
    order = np.lexsort((times, codes))
    ends = np.cumsum(np.bincount(codes, minlength=len(combined)))
    lists = {"time": times} | {name: table.column(name).to_numpy() for name in measures}
    parts = {name: np.split(values[order], ends[:-1]) for name, values in lists.items()}
    return [
        {**dict(zip(fields, row, strict=True)), **{n: p[at] for n, p in parts.items()}}
        for at, row in enumerate(combined.rows())
    ]


def _column(column: pa.ChunkedArray) -> Any:
    if pa.types.is_timestamp(column.type):
        return _milliseconds(column)
    return column.to_pylist()


def _milliseconds(column: pa.ChunkedArray) -> Any:
    return column.cast(pa.int64()).to_numpy() // 1000
