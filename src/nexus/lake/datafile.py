"""A file that a table's log names, with what its statistics say of the rows in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from nexus.telemetry.tables import TableSpec

TIME_COLUMNS: Final = ("timestamp", "start", "refused")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table; bounds hold every value, though they may be wider."""

    path: str
    size: int
    rows: int
    partition: Mapping[str, str]
    bounds: Mapping[str, tuple[Any, Any]]  # least and greatest, of columns that have them
    modified_ms: int
    low: datetime | None = None  # of the table's time column
    high: datetime | None = None


def time_column(spec: TableSpec) -> str | None:
    """The column that says when a row was; None for snapshots without one."""
    return next((name for name in TIME_COLUMNS if name in spec.schema.names), None)


def file_of_add(action: Mapping[str, Any], spec: TableSpec) -> DataFile:
    """The file that an add action of the log names."""
    stats = json.loads(action.get("stats") or "{}")
    least, greatest = stats.get("minValues", {}), stats.get("maxValues", {})
    bounds = {
        name: (_value(spec, name, least[name]), _value(spec, name, greatest[name]))
        for name in least.keys() & greatest.keys()
    }
    return data_file(
        spec,
        path=action["path"],
        size=int(action["size"]),
        rows=int(stats.get("numRecords", 0)),
        partition=dict(action.get("partitionValues", {})),
        bounds=bounds,
        modified_ms=int(action["modificationTime"]),
    )


def data_file(spec: TableSpec, *, bounds: Mapping[str, tuple[Any, Any]], **said: Any) -> DataFile:
    """A file with the bounds of its table's time column taken out of all of them."""
    low, high = bounds.get(time_column(spec) or "", (None, None))
    return DataFile(bounds=bounds, low=low, high=high, **said)


def _value(spec: TableSpec, name: str, value: Any) -> Any:
    if name in spec.schema.names and pa.types.is_timestamp(spec.schema.field(name).type):
        return datetime.fromisoformat(value)
    return value
