"""What every question stands on, where rows are in PostgreSQL.

Questions ask for files: here hours are in their place, with as many rows as came in them. Which
rows are needed is decided in the database, by the conditions of the question as they stand; their
numbers come as one array, and their texts are in memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa

from nexus.store.errors import TooMuch
from nexus.store.port import ANY, Selection
from nexus.store.postgres.copying import Records, fetch_records, moments, numbers
from nexus.store.postgres.layout import READING_NUMBERS, VALUES
from nexus.store.postgres.newest import LastReadings
from nexus.store.postgres.pinned import Pin, Pins
from nexus.store.postgres.texts import Texts
from nexus.store.questions.asking import First
from nexus.store.questions.conditions import Conditions
from nexus.store.questions.coverage import Rolled
from nexus.store.questions.database import Database
from nexus.store.questions.held import EPOCH, TICK, Held, moment
from nexus.store.questions.known import Whole
from nexus.store.questions.rolled import less_removed
from nexus.store.questions.spans import HOUR, MINUTE, Stretch, clipped, joined, outer

ROWS_MAX: Final = 3_000_000  # that one statement may have to look at
_NAMED: Final = re.compile(r"\$(p\d+)\b")
_TIME, _NUMBER, _WHOLE = ">i8", ">f8", ">i8"
READING_FIELDS: Final = tuple(
    (name, _NUMBER if name.endswith("value") else _TIME) for name in READING_NUMBERS
)
WINDOW_FIELDS: Final = (
    ("start", _TIME),
    ("count", _WHOLE),
    ("missing", _WHOLE),
    *((name, _NUMBER) for name in VALUES),
    ("last_timestamp", _TIME),
)
# No column may be null in an array of numbers: what is not there is NaN, or the end of time.
_NEVER: Final = 2**63 - 1


class Hours(Held):
    """What a question takes for a file: an hour of a table, and of which series it is asked."""

    which: Selection


@dataclass(frozen=True, slots=True)
class Ways:
    """What all questions to one store share."""

    pins: Pins
    database: Database
    texts: Texts
    newest: LastReadings
    now_s: Callable[[], float]
    unknown_after_s: float


@dataclass(frozen=True, slots=True)
class PostgresAsking:
    """One question's way to the store, at one snapshot; see `Asking`."""

    ways: Ways
    pin: Pin
    _hours: dict[tuple[str, Stretch], list[Held]] = field(default_factory=dict)
    _sources: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def unknown_after_s(self) -> float:
        return self.ways.unknown_after_s

    def now_s(self) -> float:
        return self.ways.now_s()

    def files(self, name: str, stretches: Sequence[Stretch], which: Selection) -> list[Held]:
        if not self.pin.id or not stretches or (which.uuids and not self._gpus(which)):
            return []
        whole = Stretch(stretches[0].low, stretches[-1].high)
        found: list[Held] = []
        for held in self._held(name, whole):
            if any(s.low <= held.high and held.low < s.high for s in stretches):
                hours = Hours(*held)
                hours.which = which
                found.append(hours)
        return found

    def source(
        self, name: str, files: Sequence[Held], conditions: Conditions, first: First | None = None
    ) -> str:
        which = next((file.which for file in files if isinstance(file, Hours)), ANY)
        fields = READING_FIELDS if name == "readings" else WINDOW_FIELDS
        sql, params = self._statement(name, fields, which, conditions, first)
        with self.ways.pins.reading(self.pin) as cursor:
            rows = fetch_records(cursor, sql, params, (*fields, ("context_id", ">i4")))
        if len(rows) > ROWS_MAX:
            raise TooMuch(f"more than {ROWS_MAX} rows: ask for less time or fewer GPUs")
        columns = {field: column_of(rows[field], kind, field) for field, kind in fields}
        columns |= self.ways.texts.of(self.pin, rows["context_id"].astype(np.int32))
        source = f"source_{len(self._sources)}"
        self._sources[source] = pa.table(columns)
        return source

    def ask(
        self, sql: str, params: Mapping[str, Any], tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        try:
            return self.ways.database.ask(sql, params, {**self._sources, **(tables or {})})
        finally:
            self._sources.clear()

    def share(self, which: Selection) -> float:
        known = len(self.ways.texts.uuids(self.pin)) if self.pin.id else 0
        return min(1.0, len(which.uuids) / known) if which.uuids and known else 1.0

    def known(self) -> Whole:
        return self.ways.newest.at(self.pin)

    def rolled(self, name: str, width: int, asked: Stretch) -> Rolled | None:
        if name not in self.pin.closed:
            return None
        closed_at, version = self.pin.closed[name]
        closed = (closed_at - EPOCH) // TICK
        low, high = outer(asked, width)
        with self.ways.pins.reading(self.pin) as cursor:
            rows = cursor.execute(
                "SELECT DISTINCT minute FROM store_arrivals"
                " WHERE version > %s AND minute >= %s AND minute < %s",
                (version, moment(low), moment(min(closed, high))),
            ).fetchall()
        late = ((minute - EPOCH) // TICK for (minute,) in rows)
        windows = joined(outer(Stretch(start, start + MINUTE), width) for start in late)
        stale = less_removed(self.removed, clipped(windows, low, high))
        return Rolled(name, width, closed, stale)

    def days(self, name: str, whole: Stretch) -> set[str]:
        held = self._held(name, whole) if self.pin.id else []
        return {moment(each.low).date().isoformat() for each in held}

    def removed(self, day: str) -> bool:
        if not self.pin.id:
            return False
        with self.ways.pins.reading(self.pin) as cursor:
            found = cursor.execute("SELECT FROM store_removed WHERE day = %s", (day,)).fetchone()
        return found is not None

    def _gpus(self, which: Selection) -> list[int]:
        return self.ways.texts.gpus(self.pin, which.uuids)

    def _held(self, name: str, whole: Stretch) -> list[Held]:
        """The hours of a table that may hold rows of a stretch."""
        known = self._hours.get((name, whole))
        if known is not None:
            return known
        with self.ways.pins.reading(self.pin) as cursor:
            rows = cursor.execute(
                "SELECT rows, low, high FROM store_held WHERE name = %s AND start > %s"
                " AND start < %s AND rows > 0 ORDER BY start",
                (name, _bounded(whole.low - HOUR), _bounded(whole.high)),
            ).fetchall()
        found = [
            Held("", count, 0, (low - EPOCH) // TICK, (high - EPOCH) // TICK, None)
            for count, low, high in rows
        ]
        self._hours[name, whole] = [h for h in found if h.high >= whole.low and h.low < whole.high]
        return self._hours[name, whole]

    def _statement(
        self,
        name: str,
        fields: Sequence[tuple[str, str]],
        which: Selection,
        conditions: Conditions,
        first: First | None,
    ) -> tuple[str, dict[str, Any]]:
        where, params = as_postgres(conditions)
        if which.uuids:
            gpus = self._gpus(which)
            params["gpus"] = gpus
            where += " AND r.gpu_id = " + (str(gpus[0]) if len(gpus) == 1 else "ANY(%(gpus)s)")
        order = f" LIMIT {ROWS_MAX + 1}"
        if first is not None:
            way = "DESC" if first.descending else "ASC"
            order = f' ORDER BY r."{first.column}" {way} FETCH FIRST {first.rows} ROWS WITH TIES'
        listed = ", ".join(told(name, kind) for name, kind in fields)
        return (
            f"SELECT {listed}, r.context_id FROM {name}_stored r"
            f" JOIN contexts c ON c.id = r.context_id WHERE {where}{order}",
            params,
        )


def as_postgres(conditions: Conditions) -> tuple[str, dict[str, Any]]:
    """Conditions as psycopg takes them: they are the same SQL but for the names of values."""
    text = str(conditions)
    used = set(_NAMED.findall(text))
    said = {name: value for name, value in conditions.params.items() if name in used}
    moments = {n: v for n, v in said.items() if isinstance(v, datetime)}
    return _NAMED.sub(r"%(\1)s", text.replace("%", "%%")), {
        **said,
        **{name: _within(value) for name, value in moments.items()},
    }


def told(name: str, kind: str) -> str:
    """A column in SQL, as it can be sent in records."""
    if kind == _NUMBER:
        return f"coalesce(r.\"{name}\", 'NaN')"
    if name == "last_timestamp":
        return "coalesce(r.last_timestamp, 'infinity')"
    return f'r."{name}"'


def column_of(values: Records, kind: str, name: str) -> pa.Array:
    """A field of records as Arrow has it."""
    if kind == _NUMBER:
        return numbers(values)
    if name in ("count", "missing"):
        return pa.array(values.astype(np.int64))
    if name == "last_timestamp":
        missing = values == _NEVER
        return moments(np.where(missing, 0, values), missing)
    return moments(values)


def _bounded(micros: int) -> datetime:
    return _within(moment(micros))


def _within(at: datetime) -> datetime:
    """A moment that PostgreSQL and Python both know, also in another time zone."""
    return min(max(at, datetime(1, 1, 2, tzinfo=UTC)), datetime(9999, 12, 30, tzinfo=UTC))
