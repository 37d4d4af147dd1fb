"""From the store's rows to the API's: which columns an answer has, and in whose units.

`units=dcgm` gives raw readings with the source's own name, value and unit, exactly as they came.
Of values that were put together (rollups, summaries) there is no such original: they are converted
by the catalogue's factor, under the name that was asked for or else DCGM's older name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from nexus.gateway.metric_names import MetricNames, SourceForm
from nexus.telemetry.catalogue import meaning_of, usual_unit
from nexus.telemetry.combine import combine
from nexus.telemetry.reading import HOLDER_COLUMNS
from nexus.telemetry.scalars import scalar

Units = Literal["canonical", "dcgm"]

READING_COLUMNS: Final = (
    "timestamp",
    "metric",
    "value",
    "unit",
    "uuid",
    "gpu",
    "hostname",
    *HOLDER_COLUMNS,
    "mig",
    "instance",
    "cluster",
    "device",
    "model",
)
ROLLUP_COLUMNS: Final = (*READING_COLUMNS, "min", "max", "mean", "last", "count", "missing")
GPU_COLUMNS: Final = (
    "uuid",
    "gpu",
    "device",
    "model",
    "hostname",
    "cluster",
    *HOLDER_COLUMNS,
    "mig",
    "state",
    "last_seen",
    "first_seen",
    "busy",
)
GROUP_MEASURES: Final = ("value", "sum", "min", "max")
_ROLLUP_MEASURES: Final = ("value", "min", "max", "mean", "last")
SUMMARY_MEASURES: Final = (
    "min",
    "max",
    "mean",
    "p50",
    "p95",
    "p99",
    "p50_error",
    "p95_error",
    "p99_error",
)


def stored(shown: Sequence[str], units: Units) -> tuple[str, ...]:
    """The store's columns that answers with these columns are made of, raw or rolled up."""
    made_of = ("source_metric", *(("source_value",) if units == "dcgm" else ()))
    return (*shown, *made_of, "start", "mean")


def reading_view(rows: pa.Table, units: Units, shown: Sequence[str] = READING_COLUMNS) -> pa.Table:
    """Raw readings, with the canonical unit or as their source said them."""
    kinds = combine([rows.column("source_metric"), rows.column("unit")])
    if units == "canonical":
        named = [meaning_of(name, unit).unit for name, unit in kinds.rows()]
        return _shown(_with(rows, {"unit": _texts(kinds.spread(named))}), shown)
    named = [unit or usual_unit(name) for name, unit in kinds.rows()]
    collected = rows.column("value").is_valid()
    # A blank that arrived as a number is "not collected" under every name.
    value = pc.if_else(collected, rows.column("source_value"), scalar(None, pa.float64()))
    made = {"unit": _texts(kinds.spread(named)), "metric": rows.column("source_metric")}
    return _shown(_with(rows, {**made, "value": value}), shown)


def rollup_view(
    rows: pa.Table, units: Units, names: MetricNames, shown: Sequence[str] = ROLLUP_COLUMNS
) -> pa.Table:
    """Rolled-up readings; `value` is the mean, `timestamp` the start of the step."""
    columns = {"timestamp": rows.column("start"), "value": rows.column("mean")}
    for name, column in columns.items():
        rows = rows.append_column(pa.field(name, column.type, name == "value"), column)
    rows = _shown(rows, shown)
    measures = [name for name in _ROLLUP_MEASURES if name in rows.column_names]
    return converted(rows, measures, names) if units == "dcgm" else rows


def summary_view(rows: pa.Table, units: Units, names: MetricNames) -> pa.Table:
    """What readings amount to, converted if asked."""
    return converted(rows, SUMMARY_MEASURES, names) if units == "dcgm" else rows


def group_view(rows: pa.Table, units: Units, names: MetricNames) -> pa.Table:
    """Groups by steps of time, converted if asked; `value` is the mean of the members."""
    rows = rows.rename_columns({"start": "timestamp", "mean": "value"})
    return converted(rows, GROUP_MEASURES, names) if units == "dcgm" else rows


def gpu_view(rows: pa.Table) -> pa.Table:
    """GPUs without what only a single one's page shows."""
    return rows.select(GPU_COLUMNS)


def converted(rows: pa.Table, measures: Sequence[str], names: MetricNames) -> pa.Table:
    """Canonical values in the units and under the names of DCGM."""
    has_instance = "instance" in rows.column_names
    keys = ("metric", "unit", *(("instance",) if has_instance else ()))
    kinds = combine([rows.column(name) for name in keys])
    forms = [
        names.source_form(row[0], row[2] if has_instance else "", row[1]) for row in kinds.rows()
    ]

    def spread(number: Callable[[SourceForm], int]) -> pa.Array:
        return pa.array([float(number(form)) for form in forms], pa.float64()).take(kinds.codes)

    multiply, divide = spread(lambda form: form.multiply), spread(lambda form: form.divide)
    made = {name: pc.divide(pc.multiply(rows.column(name), multiply), divide) for name in measures}
    made["metric"] = _texts(kinds.spread([form.name for form in forms]))
    made["unit"] = _texts(kinds.spread([form.unit for form in forms]))
    return _with(rows, made)


def _shown(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    return rows.select([name for name in names if name in rows.column_names])


def _with(rows: pa.Table, columns: dict[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    for name, column in columns.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), column)
    return rows


def _texts(column: pa.DictionaryArray) -> pa.Array:
    return column.cast(pa.string())
