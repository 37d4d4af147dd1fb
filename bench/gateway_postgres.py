"""The same readings in PostgreSQL, as somebody would lay them out who knows it well.

Text is kept once for each series, in a table of its own; readings and minutes have the series'
number, and an index by series and time. The server is Debian's, started for the benchmark in a
folder of its own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa

from nexus.telemetry.combine import combine
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import DEVICE_COLUMNS
from nexus.telemetry.tables import TABLES

_TEXT: Final = tuple(
    dict.fromkeys((*SERIES_COLUMNS, *DEVICE_COLUMNS, "source_metric", "unit", "labels"))
)
_SINCE_2000_US: Final = 946_684_800_000_000
_SETTINGS: Final = {
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
        self._folder = folder
        self._user = "postgres" if os.geteuid() == 0 else None
        self._port = _free_port()
        self._ids: dict[tuple[str, ...], int] = {}
        self._short: dict[tuple[str, ...], int] = {}  # by what rollups say of them
        self.load_s = 0.0

    def __enter__(self) -> Postgres:
        self._folder.mkdir(parents=True)
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
        data = self._folder / "data"
        self._run("initdb", "-D", str(data), "-A", "trust", "-U", "bench", "--no-sync")
        said = {**_SETTINGS, "port": str(self._port), "unix_socket_directories": str(self._folder)}
        with open(data / "postgresql.conf", "a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in said.items())
        log = self._folder / "log"
        self._run("pg_ctl", "-D", str(data), "-w", "-l", str(log), "start")
        self._connection = self.connect()
        self._connection.execute(_TABLES)
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "stop")

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            f"host=127.0.0.1 port={self._port} user=bench dbname=postgres", autocommit=True
        )

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
        numbers = self._series(rows)
        columns = [_column(rows.column(name)) for name in names]
        nulls = np.zeros(len(numbers), np.int64)
        for place, (_, valid) in enumerate(columns):
            nulls |= (~valid).astype(np.int64) << place
        with self._connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
            for kind in np.unique(nulls):  # rows whose nulls are in the same places
                chosen = nulls == kind
                missing = [bool(kind >> place & 1) for place in range(len(columns))]
                copy.write(_records(numbers[chosen], [c[chosen] for c, _ in columns], missing))
            copy.write(b"\xff\xff")

    def _series(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        """The number of each row's series; what a rollup does not say is taken as it was said."""
        names = [name for name in _TEXT if name in rows.column_names]
        found = combine([rows.column(name) for name in names])
        ids = np.array([self._id(dict(zip(names, row, strict=True))) for row in found.rows()])
        numbers: npt.NDArray[np.int32] = ids.astype(np.int32)[found.codes.to_numpy()]
        return numbers

    def _id(self, said: dict[str, str]) -> int:
        texts = tuple(said.get(name, "") for name in _TEXT)
        if "source_metric" not in said:
            known = self._short.get(texts[:-3])
            if known is not None:
                return known
        number = self._ids.setdefault(texts, len(self._ids))
        self._short.setdefault(texts[:-3], number)
        return number

    def _run(self, program: str, *words: str) -> None:
        path = shutil.which(program) or _debian(program)
        subprocess.run(
            [path, *words],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._user,
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )


def _debian(program: str) -> str:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    if not found:
        raise SystemExit(f"{program} was not found: apt install postgresql")
    return str(found[-1])


def _column(column: pa.ChunkedArray) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Big-endian values as COPY takes them, and which of them there are."""
    valid = column.is_valid().to_numpy()
    if pa.types.is_timestamp(column.type):
        ticks = column.cast(pa.int64()).fill_null(_SINCE_2000_US).to_numpy() - _SINCE_2000_US
        return ticks.astype(">i8"), valid
    if pa.types.is_integer(column.type):
        return column.to_numpy().astype(">i8"), valid
    return column.fill_null(0.0).to_numpy().astype(">f8"), valid


def _records(
    numbers: npt.NDArray[np.int32], columns: list[npt.NDArray[Any]], missing: list[bool]
) -> bytes:
    fields: list[tuple[str, Any]] = [("fields", ">i2"), ("l", ">i4"), ("series", ">i4")]
    for place, column in enumerate(columns):
        fields.append((f"l{place}", ">i4"))
        if not missing[place]:
            fields.append((f"c{place}", column.dtype))
    made = np.empty(len(numbers), np.dtype(fields))
    made["fields"], made["l"], made["series"] = 1 + len(columns), 4, numbers
    for place, column in enumerate(columns):
        made[f"l{place}"] = -1 if missing[place] else 8
        if not missing[place]:
            made[f"c{place}"] = column
    return made.tobytes()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
