"""Rows of the store as columns: a statement in InfluxQL for each stretch of time, and their texts.

Names of columns are the program's own; whatever a user says is bound to a name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.errors import TooMuch
from nexus.store.influx.journal import State
from nexus.store.influx.layout import CONTEXT, VALUES, place_of
from nexus.store.influx.lines import tag_text
from nexus.store.influx.talking import Influx
from nexus.store.influx.texts import Texts, Told
from nexus.store.port import Selection
from nexus.store.questions.conditions import SELECTED
from nexus.store.questions.spans import Stretch
from nexus.telemetry.reading import ENCODED_TEXT, TIMESTAMP

ROWS_MAX: Final = 1_000_000  # that one statement may have to look at
UUIDS: Final = 100  # that one statement names
_TIME_LEAST, _TIME_MOST = -(2**62) // 1000, 2**62 // 1000  # that InfluxDB can have, about
_TAGS: Final = ("uuids", "migs", "namespaces", "pods", "metrics")


def _floats(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.float64()) for name in names]


READING: Final = pa.schema(
    [
        pa.field("time", pa.int64()),
        pa.field(CONTEXT, ENCODED_TEXT),
        pa.field("ingested", pa.int64()),
        *_floats("value", "source_value"),
    ]
)
WINDOW: Final = pa.schema(
    [
        pa.field("time", pa.int64()),
        pa.field(CONTEXT, ENCODED_TEXT),
        pa.field("count", pa.int64()),
        pa.field("missing", pa.int64()),
        *_floats(*VALUES),
        pa.field("last_timestamp", pa.int64()),
    ]
)
# A row for each context: by what it is grouped stands in a column of its own.
NEWEST: Final = pa.schema(
    [pa.field("tags", ENCODED_TEXT), *(f for f in READING if f.name != CONTEXT)]
)


class Reader:
    """Reads the tables of one store."""

    def __init__(self, influx: Influx, texts: Texts) -> None:
        self.influx = influx
        self.texts = texts

    def table(
        self, state: State, name: str, stretches: Sequence[Stretch], which: Selection
    ) -> pa.Table:
        """The rows of readings or of a rollup that a selection may mean, with their texts."""
        schema = READING if name == "readings" else WINDOW
        rows = self.rows(state, name, schema, stretches, which)
        told = self.texts.of(state.identity, rows.column(CONTEXT))
        if name != "readings":
            return pa.table({**_windows(rows), **told.texts()})
        rows, told = each_once(rows, told)
        return pa.table({**readings_of(rows), **told.texts()})

    def rows(
        self,
        state: State,
        name: str,
        schema: pa.Schema,
        stretches: Sequence[Stretch],
        which: Selection,
    ) -> pa.Table:
        """Rows as they are stored; TooMuch if there are too many."""
        uuids = self.texts.uuids(state.identity, state.version, which)
        listed = ", ".join(f'"{column}"' for column in schema.names if column != "time")
        found: list[pa.Table] = []
        left = ROWS_MAX
        for where, params in conditions(which, uuids):
            for stretch in stretches:
                statement = (
                    f"SELECT {listed} FROM {place_of(name)} WHERE {during(stretch)}{where}"
                    f" LIMIT {left + 1}"
                )
                found.append(self.influx.ask(statement, params, schema))
                left -= found[-1].num_rows
                if left < 0:
                    raise TooMuch(f"more than {ROWS_MAX} rows: ask for less time or fewer GPUs")
        return pa.concat_tables(found or [schema.empty_table()])


def during(stretch: Stretch) -> str:
    """A stretch of time, as a condition."""
    low, high = max(stretch.low, _TIME_LEAST), min(stretch.high, _TIME_MOST)
    return f"time >= {low}u AND time < {high}u"


def conditions(
    which: Selection, uuids: Collection[str] | None
) -> Iterator[tuple[str, dict[str, str]]]:
    """What tags can decide of a selection, in as many statements as it takes for all GPUs."""
    params: dict[str, str] = {}
    parts = [
        _among(SELECTED[part], getattr(which, part), params)
        for part in _TAGS
        if getattr(which, part) and part != "uuids"
    ]
    if uuids is None:
        yield "".join(parts), params
        return
    named = list(uuids)
    for start in range(0, len(named), UUIDS):
        own = dict(params)
        yield "".join([*parts, _among("uuid", named[start : start + UUIDS], own)]), own


def readings_of(rows: pa.Table) -> dict[str, Any]:
    """The numbers of readings; what the source said is the value where nothing else stands."""
    value, source = rows.column("value"), rows.column("source_value")
    return {
        "timestamp": rows.column("time").cast(TIMESTAMP),
        "ingested": rows.column("ingested").cast(TIMESTAMP),
        "value": value,
        "source_value": pc.coalesce(source, value),
    }


def _among(column: str, values: Sequence[str], params: dict[str, str]) -> str:
    names = []
    for value in dict.fromkeys(values):
        names.append(f"p{len(params)}")
        params[names[-1]] = tag_text(value)
    return " AND (" + " OR ".join(f'"{column}" = ${name}' for name in names) + ")"


def _windows(rows: pa.Table) -> dict[str, Any]:
    columns = {name: rows.column(name) for name in ("count", "missing", *VALUES)}
    return {
        "start": rows.column("time").cast(TIMESTAMP),
        **columns,
        "last_timestamp": rows.column("last_timestamp").cast(TIMESTAMP),
    }


def each_once(rows: pa.Table, told: Told) -> tuple[pa.Table, Told]:
    """Of readings with one identity and different contexts, the one that was taken first."""
    if len(told.series) == len(np.unique(told.series)):
        return rows, told  # no series has two contexts
    series, moments = told.series_of_rows(), rows.column("time").to_numpy()
    order = np.lexsort((rows.column("ingested").to_numpy(), moments, series))
    is_copy = np.zeros(len(order), np.bool_)
    is_copy[1:] = (np.diff(series[order]) == 0) & (np.diff(moments[order]) == 0)
    if not is_copy.any():
        return rows, told
    kept = np.sort(order[~is_copy])
    return rows.take(pa.array(kept)), Told(told.places[kept], told.columns, told.series)
