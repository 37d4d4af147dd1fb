"""The same readings in PostgreSQL, as somebody would lay them out who knows it well.

Text is kept once for each series, in a table of its own; readings and minutes have the series'
number, and an index by series and time. The server is Debian's, started for the benchmark in a
folder of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg
import pyarrow as pa

from nexus.bench.local_postgres import LocalPostgres
from nexus.store.postgres.copying import copy_in
from nexus.telemetry.combine import combine
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import DEVICE_COLUMNS
from nexus.telemetry.tables import TABLES

_TEXT: Final = tuple(
    dict.fromkeys((*SERIES_COLUMNS, *DEVICE_COLUMNS, "source_metric", "unit", "labels"))
)
_READ: Final = ["series", "at", "ingested", "value", "source_value"]
_NAMED: Final = {
    "readings": _READ,
    "latest": _READ,
    "minutes": ["series", "start", "count", "missing", "min", "max", "mean", "last", "last_at"],
}
SETTINGS: Final = {
    "shared_buffers": "1GB",
    "effective_cache_size": "4GB",
    "work_mem": "64MB",
    "maintenance_work_mem": "1GB",
    "max_wal_size": "8GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "synchronous_commit": "off",
    "max_connections": "50",
    "random_page_cost": "1.1",
    "jit": "off",
}
_TABLES: Final = f"""
    CREATE TABLE series (id int PRIMARY KEY, {", ".join(f"{n} text NOT NULL" for n in _TEXT)});
    CREATE TABLE readings (series int NOT NULL, at timestamptz NOT NULL,
        ingested timestamptz NOT NULL, value float8, source_value float8 NOT NULL);
    CREATE TABLE minutes (series int NOT NULL, start timestamptz NOT NULL, count int8 NOT NULL,
        missing int8 NOT NULL, min float8, max float8, mean float8, last float8,
        last_at timestamptz);
    CREATE TABLE latest (LIKE readings);
    CREATE TABLE gpus ({
    ", ".join(
        f"{f.name} {'timestamptz' if pa.types.is_timestamp(f.type) else 'text'} NOT NULL"
        for f in TABLES["gpus"].schema
    )
}, PRIMARY KEY (uuid, mig));
"""
_INDEXES: Final = """
    CREATE INDEX ON series (uuid);
    CREATE INDEX ON series (metric);
    CREATE INDEX ON readings (series, at);
    CREATE INDEX ON minutes (series, start);
    CREATE UNIQUE INDEX ON latest (series);
"""
_KEY: Final = ", ".join(f"s.{name}" for name in SERIES_COLUMNS)
_ALL: Final = ", ".join(f"s.{name}" for name in _TEXT)
_DAY: Final = f"""SELECT date_bin('2 minutes', m.start, 'epoch') AS step, {_ALL}, sum(m.count),
      min(m.min), max(m.max), sum(m.mean * m.count) / nullif(sum(m.count), 0)
    FROM minutes m JOIN series s ON s.id = m.series
    WHERE s.uuid = %(uuid)s AND m.start >= to_timestamp(%(start)s)
      AND m.start <= to_timestamp(%(end)s) AND {{which}}
    GROUP BY step, s.id ORDER BY step, {_KEY}"""
QUERIES: Final = {
    "hour": f"""SELECT r.at, r.value, r.source_value, r.ingested, {_ALL}
        FROM readings r JOIN series s ON s.id = r.series
        WHERE s.uuid = %(uuid)s AND r.at >= to_timestamp(%(start)s)
          AND r.at <= to_timestamp(%(end)s)
        ORDER BY r.at, {_KEY} LIMIT 10000""",
    "day": _DAY.format(which="s.metric = 'gpu_util'"),
    "day of all": _DAY.format(which="true"),
    "latest": f"""SELECT l.at, l.value, {_ALL} FROM latest l JOIN series s ON s.id = l.series
        WHERE s.metric = 'gpu_util' AND l.at >= to_timestamp(%(start)s)
        ORDER BY {_KEY} LIMIT 10000""",
    "gpus": "SELECT * FROM gpus ORDER BY uuid, mig LIMIT 1000",
}


class Postgres:
    """A server of its own in a folder, filled by COPY, then asked."""

    def __init__(self, folder: Path) -> None:
        self._server = LocalPostgres(folder, SETTINGS)
        self._ids: dict[tuple[str, ...], int] = {}
        self._short: dict[tuple[str, ...], int] = {}  # by what rollups say of them
        self.load_s = 0.0

    def __enter__(self) -> Postgres:
        self._server.__enter__()
        self._connection = self.connect()
        self._connection.execute(_TABLES)
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()
        self._server.__exit__(*error)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._server.url(), autocommit=True)

    def add(self, table: str, rows: pa.Table) -> None:
        """Take rows that the store's tables have, too."""
        began = time.monotonic()
        if table in ("readings", "latest"):
            self._copy(table, rows, ("timestamp", "ingested", "value", "source_value"))
        elif table == "rollup_1m":
            measures = ("start", "count", "missing", "min", "max", "mean", "last", "last_timestamp")
            self._copy("minutes", rows, measures)
        elif table == "gpus":
            names = TABLES["gpus"].schema.names
            with self._connection.cursor().copy("COPY gpus FROM STDIN") as copy:
                for row in rows.select(names).to_pylist():
                    copy.write_row([row[name] for name in names])
        self.load_s += time.monotonic() - began

    def finish(self) -> int:
        """Store the series and make the indexes; the size of it all."""
        began = time.monotonic()
        with self._connection.cursor().copy("COPY series FROM STDIN") as copy:
            for texts, number in self._ids.items():
                copy.write_row([number, *texts])
        for statement in _INDEXES.strip().split(";")[:-1]:
            self._connection.execute(statement)
        self._connection.execute("VACUUM ANALYZE")
        self.load_s += time.monotonic() - began
        found = self._connection.execute("SELECT pg_database_size('postgres')").fetchone()
        assert found is not None
        return int(found[0])

    def asker(self) -> Callable[[str, dict[str, Any]], int]:
        """Asks one of QUERIES on a connection of its own; how many rows came."""
        connection = self.connect()

        def ask(name: str, params: dict[str, Any]) -> int:
            return len(connection.execute(QUERIES[name], params).fetchall())

        return ask

    def _copy(self, table: str, rows: pa.Table, names: tuple[str, ...]) -> None:
        made = pa.table([self._series(rows), *(rows.column(name) for name in names)], _NAMED[table])
        with self._connection.cursor() as cursor:
            copy_in(cursor, table, made)

    def _series(self, rows: pa.Table) -> pa.Array:
        """The number of each row's series; what a rollup does not say is taken as it was said."""
        names = [name for name in _TEXT if name in rows.column_names]
        found = combine([rows.column(name) for name in names])
        ids = np.array([self._id(dict(zip(names, row, strict=True))) for row in found.rows()])
        return pa.array(ids.astype(np.int32)[found.codes.to_numpy()])

    def _id(self, said: dict[str, str]) -> int:
        texts = tuple(said.get(name, "") for name in _TEXT)
        if "source_metric" not in said:
            known = self._short.get(texts[:-3])
            if known is not None:
                return known
        number = self._ids.setdefault(texts, len(self._ids))
        self._short.setdefault(texts[:-3], number)
        return number
