"""A store in PostgreSQL to be read and added to: binary COPY both ways, in pieces.

What is added goes the way of a batch: staged, and taken up in one transaction with a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.errors import StoreBusy
from nexus.pipeline.moving.contexts import Contexts
from nexus.pipeline.moving.port import COPIED, DERIVED, Slice, Wait
from nexus.pipeline.moving.postgres_checks import faults_of, fresh_windows
from nexus.pipeline.moving.postgres_rollups import add_windows, note_gone
from nexus.store.postgres.asking import READING_FIELDS, WINDOW_FIELDS, column_of, told
from nexus.store.postgres.connecting import as_store_errors, connect
from nexus.store.postgres.copying import Records, record_pieces
from nexus.store.postgres.dictionary import Dictionary, fit
from nexus.store.postgres.layout import stored_name
from nexus.store.postgres.lock import PostgresLock
from nexus.store.postgres.rolling import WIDTHS, Roller
from nexus.store.postgres.schema import check, version_of
from nexus.store.postgres.staging import last_batch, make_staging, merge
from nexus.store.postgres.texts import Contexts as Known
from nexus.store.postgres.url import PostgresUrl
from nexus.store.postgres.writing import Stager, parts_of
from nexus.store.questions.spans import Stretch
from nexus.telemetry.reading import in_one_piece
from nexus.telemetry.scalars import scalar
from nexus.telemetry.tables import TABLES

APP: Final = "copy"
PORTION_ROWS: Final = 256 * 1024
READ_ROWS: Final = 128 * 1024
REFUSED_ROWS: Final = 256  # each may be as large as a message
GRACE: Final = timedelta(seconds=30)  # as a collector has it unless told otherwise
_REFUSED: Final = pa.schema([f for f in TABLES["quarantine"].schema if f.name != "day"])
_REFUSED_TEXTS: Final = tuple(f.name for f in _REFUSED if pa.types.is_string(f.type))
_LISTED: Final = ", ".join(f'"{name}"' for name in _REFUSED.names)
_WITHIN: Final = 'r."{0}" >= %(low)s AND r."{0}" < %(high)s'


class PostgresPlace:
    """See `Place`."""

    counts_exactly = True

    def __init__(self, place: PostgresUrl) -> None:
        self.name = str(place)
        self.place = place
        self._contexts = Known()
        self._snapshot = ""  # of which all is read, if one is held

    def days(self, table: str) -> Mapping[str, int]:
        counted = (
            "SELECT day::text, count(*) FROM quarantine GROUP BY 1"
            if table == "quarantine"
            else "SELECT (start AT TIME ZONE 'UTC')::date::text, sum(rows)::bigint FROM store_held"
            " WHERE name = %(name)s AND rows > 0 GROUP BY 1"
        )
        with self.reading() as cursor:
            if cursor is None:
                return {}
            return dict(cursor.execute(counted, {"name": table}).fetchall())

    def rows(self, part: Slice) -> Iterator[pa.Table]:
        with self.reading() as cursor:
            if cursor is not None:
                yield from (
                    self._refused(cursor, part)
                    if part.table == "quarantine"
                    else self._stored(cursor, part)
                )

    @contextmanager
    def pinned(self) -> Iterator[None]:
        with self.reading() as cursor:
            if cursor is not None:
                row = cursor.execute("SELECT pg_export_snapshot()").fetchone()
                assert row is not None
                self._snapshot = str(row[0])
            try:
                yield
            finally:
                self._snapshot = ""

    def faults(self, part: Slice) -> list[str]:
        with self.reading() as cursor:
            return [] if cursor is None else faults_of(cursor, part)

    def fresh(self, part: Slice) -> list[Stretch]:
        with self.reading() as cursor:
            return [] if cursor is None else fresh_windows(cursor, part)

    @contextmanager
    def writer(self, owner: str, wait: Wait | None) -> Iterator[PostgresWriter]:
        lock = PostgresLock(self.place, owner)
        try:
            lock.acquire(wait or self._busy)
            yield PostgresWriter(lock)
        finally:
            lock.release()

    def close(self) -> None:
        """Nothing is held between two questions."""

    @contextmanager
    def reading(self) -> Iterator[psycopg.Cursor[Any] | None]:
        """A cursor at one state of the database; None where there are no tables."""
        with as_store_errors(self.place), connect(self.place, "store") as connection:
            version = version_of(connection)
            check(self.place, version)
            if not version:
                yield None
                return
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if self._snapshot:
                connection.execute(f"SET TRANSACTION SNAPSHOT '{self._snapshot}'")
            with connection.cursor() as cursor:
                yield cursor

    def _busy(self, who: str) -> None:
        raise StoreBusy(
            f"store {self.name}: {who} writes to it; one writer a store: stop that one, or wait for"
            " it with --wait"
        )

    def _stored(self, cursor: psycopg.Cursor[Any], part: Slice) -> Iterator[pa.Table]:
        """Rows of numbers, with their texts beside them."""
        self._contexts.catch_up(cursor)
        fields = READING_FIELDS if part.table == "readings" else WINDOW_FIELDS
        names = [name for name in TABLES[part.table].schema.names if name != "day"]
        listed = ", ".join(told(name, kind) for name, kind in fields)
        where = _WITHIN.format(part.column)
        sql = f"SELECT {listed}, r.context_id FROM {stored_name(part.table)} r WHERE {where}"
        whole = (*fields, ("context_id", ">i4"))
        for found in record_pieces(cursor, sql, _times(part), whole, READ_ROWS):
            columns = {name: column_of(found[name], kind, name) for name, kind in fields}
            columns |= self._texts(found["context_id"].astype(np.int32))
            yield pa.table(columns).select(names)

    def _texts(self, ids: npt.NDArray[np.int32]) -> dict[str, pa.Array]:
        """The texts of rows, and no others: a store has known many more in its time."""
        used, at = np.unique(ids, return_inverse=True)
        made = {}
        for name, column in self._contexts.of(used).items():
            text = column.cast(pa.string()).dictionary_encode()
            codes = text.indices.take(pa.array(at))
            made[name] = pa.DictionaryArray.from_arrays(codes, text.dictionary)
        return made

    def _refused(self, cursor: psycopg.Cursor[Any], part: Slice) -> Iterator[pa.Table]:
        where = _WITHIN.format(part.column)
        with cursor.connection.cursor("refused") as pages:
            pages.execute(f"SELECT {_LISTED} FROM quarantine r WHERE {where}", _times(part))
            while rows := pages.fetchmany(REFUSED_ROWS):
                columns = zip(*rows, strict=True)
                arrays = [pa.array(c, f.type) for c, f in zip(columns, _REFUSED, strict=True)]
                yield pa.table(arrays, schema=_REFUSED)


class PostgresWriter:
    """See `Writer`; derived tables are computed in the database, as a collector has it do."""

    tables = (*COPIED, *DERIVED)
    portion_rows = PORTION_ROWS
    derives = True

    def __init__(self, lock: PostgresLock) -> None:
        self._lock = lock
        self._dictionary = Dictionary()
        self._rollers = [Roller(name, GRACE, timedelta(0)) for name in WIDTHS]
        with as_store_errors(lock.place):
            make_staging(*lock.held())

    def add(self, part: Slice, rows: pa.Table) -> pa.Table:
        with as_store_errors(self._lock.place):
            connection, turn = self._lock.held()
            stager = Stager(connection, turn.epoch, self._dictionary)
            if part.table in DERIVED:
                return add_windows(connection, turn, stager, part, rows)
            left = (self._readings if part.table == "readings" else self._quarantine)(stager, rows)
            parts = parts_of([stager.finish()])
            merge(connection, turn, APP, last_batch(connection, APP) + 1, parts)
        return left

    def settle(self, part: Slice) -> None:
        """Every portion was a transaction of its own."""
        if part.table in DERIVED:
            with as_store_errors(self._lock.place):
                note_gone(*self._lock.held(), part)

    def derive(self) -> None:
        with as_store_errors(self._lock.place):
            connection, turn = self._lock.held()
            for roller in self._rollers:
                roller.step(connection, turn, datetime.now(UTC), drain=True)

    def _readings(self, stager: Stager, rows: pa.Table) -> pa.Table:
        contexts = Contexts(rows)
        ids: Records = stager.numbered(contexts.readings, lambda new: fit(contexts.told(new)))
        taken = ids["id"] > 0
        stager.add(contexts.readings.filter(pa.array(taken)), ids[taken])
        return rows.filter(pa.array(~taken))

    @staticmethod
    def _quarantine(stager: Stager, rows: pa.Table) -> pa.Table:
        bad = pa.repeat(scalar(False, pa.bool_()), rows.num_rows)
        for name in _REFUSED_TEXTS:
            found = pc.match_substring(rows.column(name).cast(pa.string()), "\0")
            bad = pc.or_(bad, in_one_piece(found))
        fitting = rows.filter(pc.invert(bad))
        if fitting.num_rows:
            stager.refuse(fitting.select(_REFUSED.names))
        return rows.filter(bad)


def _times(part: Slice) -> dict[str, datetime]:
    return {"low": part.since, "high": part.until}
