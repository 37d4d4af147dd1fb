"""Real PostgreSQL, started by tests, and stores in it filled as a writing task does it."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from nexus.bench.clients import BenchFailed
from nexus.bench.local_postgres import LocalPostgres, find_program
from nexus.pipeline.narrow import Narrower
from nexus.pipeline.sink.postgres_writer import Job, PostgresWriter
from nexus.store.port import QUARANTINE_ROWS
from nexus.store.postgres.connecting import Connection
from nexus.store.postgres.dictionary import Dictionary
from nexus.store.postgres.lock import PostgresLock, Turn
from nexus.store.postgres.rolling import WIDTHS, Roller
from nexus.store.postgres.staging import make_staging, merge
from nexus.store.postgres.url import parse_postgres_url
from nexus.store.postgres.writing import Part, Stager, parts_of
from nexus.telemetry.reading import READING_SCHEMA
from nexus.telemetry.tables import TABLES
from support.derived import expected_gpus, expected_latest, expected_rollup, same_rows
from support.needs import missing
from support.reckoning import WIDTHS as ROLLED
from support.reckoning import check_refused, same_tables
from support.sender import Sender

# Tests need not outlive a power cut; a crash of the server alone loses nothing by this.
QUICK = {"fsync": "off", "shared_buffers": "64MB", "max_connections": "60"}


@contextmanager
def postgres_server() -> Iterator[LocalPostgres]:
    """A server in a folder that the server's own user may enter, which pytest's are not."""
    try:
        find_program("initdb")
    except BenchFailed:
        missing("PostgreSQL is not installed (`make packages` installs it)")
    folder = Path(tempfile.mkdtemp(prefix="nexus-postgres-"))
    try:
        with LocalPostgres(folder, QUICK) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(server: LocalPostgres, name: str) -> str:
    """The address of a new, empty database."""
    own = f"{name}_{secrets.token_hex(4)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{own}" TEMPLATE template0')
    return server.url(own)


class PostgresFilled:
    """A store that nobody else writes to."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.lock = PostgresLock(parse_postgres_url(url), "test")
        self.number = -1

    def __enter__(self) -> PostgresFilled:
        self.lock.acquire()
        self.connection, self.turn = self.lock.held()
        make_staging(self.connection, self.turn)
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def add(self, rows: pa.Table) -> int:
        """Store readings as one batch; how many were new."""
        return self.commit(staged(self.connection, self.turn, rows))

    def refuse(self, rows: pa.Table) -> None:
        """Store rows of the table `quarantine`."""
        stager = Stager(self.connection, self.turn.epoch, Dictionary())
        stager.refuse(rows.drop_columns(["day"]))
        self.commit(stager.finish())

    def commit(self, part: Part) -> int:
        self.number += 1
        parts = parts_of([part])
        return merge(self.connection, self.turn, "test", self.number, parts).readings

    def roll(self, now: datetime | None = None) -> None:
        """Bring the rollups up to date."""
        for name in WIDTHS:
            roller = Roller(name, timedelta(0), timedelta(0))
            roller.step(self.connection, self.turn, now or datetime.now(UTC), drain=True)


def staged(connection: Connection, turn: Turn, rows: pa.Table) -> Part:
    """What a task does with readings (READING_SCHEMA) that Spark gives it."""
    count = rows.num_rows
    zeros = pa.repeat(pa.scalar(0, pa.int32()), count)
    narrow = Narrower().batches(rows, zeros, pa.arange(0, count), zeros)
    place = parse_postgres_url("postgresql:///any")
    writer = PostgresWriter(Job(place, turn, "t"), Stager(connection, turn.epoch, Dictionary()))
    for batch in narrow:
        writer.add(batch.append_column("refusal", pa.nulls(batch.num_rows, pa.string())))
    return writer.finish()


def table_of(connection: psycopg.Connection[Any], name: str, schema: pa.Schema) -> pa.Table:
    """A table of the design as the database has it, with those of the columns that it has."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {name}")
        names = [column.name for column in cursor.description or ()]
        rows = cursor.fetchall()
    said = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(said, pa.schema([f for f in schema if f.name in names]))


def check_database(url: str, sender: Sender) -> None:
    """Every reading sent is there once, with its values, and everything follows from that."""
    with psycopg.connect(url) as connection:
        readings = table_of(connection, "readings", READING_SCHEMA)
        same_tables(readings, sender.expected())
        check_refused(table_of(connection, "quarantine", QUARANTINE_ROWS), sender.refused)
        same_rows(
            table_of(connection, "latest", READING_SCHEMA), expected_latest(readings), "latest"
        )
        gpus = table_of(connection, "gpus", TABLES["gpus"].schema)
        same_rows(gpus, expected_gpus(readings), "gpus")
        newest = max(readings.column("timestamp").cast(pa.int64()).to_pylist())
        for name, width in ROLLED.items():
            closed_us = newest - newest % width + width
            rolled = table_of(connection, name, TABLES[name].schema)
            same_rows(rolled, expected_rollup(readings, width, closed_us), name)
