"""What is known last, kept in memory: of the next state only what changed since is read."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np
import pyarrow as pa

from nexus.store.postgres.copying import Records, fetch_records, moments, numbers
from nexus.store.postgres.layout import READING_NUMBERS
from nexus.store.postgres.pinned import Pin, Pins
from nexus.store.postgres.texts import Texts
from nexus.store.questions.database import Database
from nexus.store.questions.known import FIRST, STATE, Whole

_FIELDS: Final = (
    *((name, ">f8" if name.endswith("value") else ">i8") for name in READING_NUMBERS),
    (FIRST, ">i8"),
    ("series_id", ">i4"),
    ("context_id", ">i4"),
)
_SELECT: Final = (
    "SELECT \"timestamp\", ingested, coalesce(value, 'NaN'), source_value, first, series_id,"
    " context_id FROM latest_stored WHERE version > %(version)s"
)


class LastReadings:
    """The last readings of a store; safe for any number of threads."""

    def __init__(self, pins: Pins, texts: Texts, database: Database) -> None:
        self._pins = pins
        self._texts = texts
        self._database = database
        self._turn = threading.Lock()
        self._identity, self._version = "", 0
        self._rows: Records = np.zeros(0, _DTYPE)  # by the number of the series
        self._state = Whole(database, STATE.empty_table())

    def at(self, pin: Pin) -> Whole:
        """What is known last in a snapshot."""
        version = pin.versions.get("readings", 0)
        with self._turn:
            if pin.identity == self._identity and version == self._version:
                return self._state
            is_later = pin.identity == self._identity and version > self._version
            rows = self._rows if is_later else np.zeros(0, _DTYPE)
            if version:
                rows = _with(rows, self._read(pin, self._version if is_later else 0))
            state = self._made(pin, rows)
            if is_later or pin.identity != self._identity:
                self._identity, self._version = pin.identity, version
                self._rows, self._state = rows, state
            return state

    def _read(self, pin: Pin, after: int) -> Records:
        with self._pins.reading(pin) as cursor:
            return fetch_records(cursor, _SELECT, {"version": after}, _FIELDS)

    def _made(self, pin: Pin, rows: Records) -> Whole:
        there = rows[rows["context_id"] > 0]
        if not len(there):
            return Whole(self._database, STATE.empty_table())
        columns = {
            name: numbers(there[name]) if kind == ">f8" else moments(there[name])
            for name, kind in _FIELDS[:5]
        }
        columns |= self._texts.of(pin, there["context_id"])
        said = {name: columns[name].cast(STATE.field(name).type) for name in STATE.names}
        return Whole(self._database, pa.table(said, schema=STATE))


_DTYPE: Final = np.dtype([(name, kind.replace(">", "=")) for name, kind in _FIELDS])


def _with(known: Records, new: Records) -> Records:
    """What was known, with new rows in the places of their series."""
    most = max(len(known), int(new["series_id"].max(initial=-1)) + 1)
    rows = np.zeros(most, _DTYPE)
    rows[: len(known)] = known
    for name, _ in _FIELDS:
        rows[name][new["series_id"]] = new[name]
    return rows
