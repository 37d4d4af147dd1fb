"""What is known last: the points of `latest`, and readings that came after the version they stand
for. It is kept in memory, and of the next state only what came since is read."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.influx.journal import Arrival, State
from nexus.store.influx.layout import CONTEXT, OWN, place_of
from nexus.store.influx.lines import lines, series_key, text_fields
from nexus.store.influx.reading import NEWEST, Reader, during, readings_of
from nexus.store.questions.database import Database
from nexus.store.questions.known import FIRST, STATE, Whole
from nexus.store.questions.spans import Stretch, joined
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import ENCODED_TEXT, TIMESTAMP, encoded, in_one_piece
from nexus.telemetry.scalars import scalar

# The last reading of each series, and the time of its first.
_ROWS: Final = pa.schema(
    [
        pa.field(CONTEXT, pa.string()),
        pa.field("time", pa.int64()),
        pa.field("ingested", pa.int64()),
        pa.field("value", pa.float64()),
        pa.field("source_value", pa.float64()),
        pa.field(FIRST, pa.int64()),
    ]
)
# A field that is left out stays as it was: so a value that is not there is said to be missing.
_POINTS: Final = pa.schema(
    [
        pa.field("timestamp", pa.int64()),
        pa.field("missing", pa.int64()),
        *(field for field in _ROWS if field.name != "time"),
    ]
)
_FIRST: Final = pa.schema([pa.field("tags", ENCODED_TEXT), pa.field("time", pa.int64())])
_STRETCHES: Final = 16  # that are read one by one


@dataclass(frozen=True, slots=True)
class Known:
    """What is known last, as of a version."""

    identity: str
    version: int
    rows: pa.Table
    state: Whole


class LastReadings:
    """The last readings of a store; safe for any number of threads."""

    def __init__(self, reader: Reader, database: Database) -> None:
        self._reader = reader
        self._database = database
        self._turn = threading.Lock()
        self._known = Known("", -1, _ROWS.empty_table(), Whole(database, STATE.empty_table()))

    def at(self, state: State) -> Known:
        """What is known last at a state; one that is older than the last is not looked for."""
        with self._turn:
            known = self._known
            if known.identity == state.identity and known.version >= state.version:
                return known
            if known.identity != state.identity or known.version < state.latest:
                base, since = self._stored(state), state.latest
            else:
                base, since = known.rows, known.version
            new = [arrival for arrival in state.arrivals if arrival.version > since]
            rows = self._with(state, base, new) if new else base
            whole = known.state
            if rows is not known.rows:
                whole = Whole(self._database, self._table(state, rows))
            self._known = Known(state.identity, state.version, rows, whole)
            return self._known

    def _stored(self, state: State) -> pa.Table:
        if not state.latest:
            return _ROWS.empty_table()
        listed = ", ".join(f'"{name}"' for name in _POINTS.names)
        statement = f"SELECT {listed} FROM {place_of('latest')}"
        found = self._reader.influx.ask(statement, None, _POINTS)
        is_missing = pc.equal(found.column("missing"), scalar(1, pa.int64()))
        value = pc.if_else(is_missing, scalar(None, pa.float64()), found.column("value"))
        at = found.schema.get_field_index("value")
        found = found.set_column(at, "value", value).rename_columns({"timestamp": "time"})
        return found.select(_ROWS.names)

    def _with(self, state: State, base: pa.Table, new: Sequence[Arrival]) -> pa.Table:
        """What was known, with the last and the first of what came since."""
        stretches = joined(Stretch(a.low, a.high + 1) for a in new)
        if len(stretches) > _STRETCHES:
            stretches = [Stretch(stretches[0].low, stretches[-1].high)]
        parts = [base]
        for stretch in stretches:
            parts += self._ends(stretch)
        rows = pa.concat_tables(parts).combine_chunks()
        told = self._reader.texts.of(state.identity, rows.column(CONTEXT))
        return _together(rows, told.series_of_rows())

    def _ends(self, stretch: Stretch) -> list[pa.Table]:
        """The last and the first readings of a stretch, a row for each context."""
        tail = f'FROM {place_of("readings")} WHERE {during(stretch)} GROUP BY "{CONTEXT}"'
        ask = self._reader.influx.ask
        last = ask(
            f'SELECT last("ingested") AS "ingested", "value", "source_value" {tail}', None, NEWEST
        )
        first = ask(f'SELECT first("ingested") AS "ingested" {tail}', None, _FIRST)
        told = [_contexts(rows.column("tags")) for rows in (last, first)]
        began = first.column("time").take(pc.index_in(told[0], value_set=told[1]))
        columns = {CONTEXT: told[0], **{n: last.column(n) for n in _ROWS.names[1:5]}, FIRST: began}
        return [pa.table(columns, schema=_ROWS)]

    def _table(self, state: State, rows: pa.Table) -> pa.Table:
        told = self._reader.texts.of(state.identity, rows.column(CONTEXT))
        columns = {**readings_of(rows), **told.texts(), FIRST: rows.column(FIRST).cast(TIMESTAMP)}
        said = {name: columns[name].cast(STATE.field(name).type) for name in STATE.names}
        return pa.table(said, schema=STATE)


class LatestTable:
    """Keeps the points of `latest` up to date, for the holder of the turn."""

    def __init__(self, reader: Reader, database: Database) -> None:
        self._reader = reader
        self._last = LastReadings(reader, database)
        self._written = _ROWS.empty_table()

    def step(self, state: State) -> int | None:
        """Write what changed; the version that the points stand for then, None if none came."""
        if not any(arrival.version > state.latest for arrival in state.arrivals):
            return None
        known = self._last.at(state)
        changed = _changed(known.rows, self._written)
        if changed.num_rows:
            self._write(state, changed)
        self._written = known.rows
        return known.version

    def _write(self, state: State, rows: pa.Table) -> None:
        told = self._reader.texts.of(state.identity, rows.column(CONTEXT)).texts()
        said = [told[name].to_pylist() for name in SERIES_COLUMNS]
        keys = [
            series_key("latest", dict(zip(SERIES_COLUMNS, row, strict=True)))
            for row in zip(*said, strict=True)
        ]
        columns = {name: in_one_piece(rows.column(name)) for name in _ROWS.names}
        value, source = columns["value"], columns["source_value"]
        columns["source_value"] = pc.coalesce(source, value)
        columns["value"] = pc.fill_null(value, scalar(0.0, pa.float64()))
        fields = [("timestamp", columns.pop("time")), ("missing", value.is_null().cast(pa.int64()))]
        fields.append((CONTEXT, text_fields(columns.pop(CONTEXT))))
        zero = pa.repeat(scalar(0, pa.int64()), rows.num_rows)
        for body in lines(pa.array(keys, pa.string()), [*fields, *columns.items()], zero):
            self._reader.influx.write(OWN, body)


def _contexts(tags: pa.ChunkedArray) -> pa.Array:
    said = encoded(tags)
    names = pc.utf8_slice_codeunits(said.dictionary, len(CONTEXT) + 1)
    return names.take(said.indices)


def _together(rows: pa.Table, series: np.ndarray) -> pa.Table:
    """Of each series the last reading, and the time of its first."""
    if not rows.num_rows:
        return rows
    moments = rows.column("time").to_numpy()
    order = np.lexsort((moments, series))
    begins = np.flatnonzero(np.diff(series[order], prepend=-1))
    ends = np.append(begins[1:], len(order)) - 1
    first = np.minimum.reduceat(rows.column(FIRST).to_numpy()[order], begins)
    last = rows.take(pa.array(order[ends]))
    at = last.schema.get_field_index(FIRST)
    return last.set_column(at, _ROWS.field(FIRST), pa.array(first)).combine_chunks()


def _changed(rows: pa.Table, written: pa.Table) -> pa.Table:
    """Rows that are not as they were written; one is known by its context and its times."""
    if not written.num_rows:
        return rows
    places = pc.index_in(rows.column(CONTEXT), value_set=in_one_piece(written.column(CONTEXT)))
    same = [
        pc.fill_null(
            pc.equal(rows.column(n), written.column(n).take(places)), scalar(False, pa.bool_())
        )
        for n in ("time", FIRST)
    ]
    return rows.filter(pc.invert(pc.and_(*same)))
