"""Measures PostgreSQL as a store: how fast it takes readings, and how fast it answers.

    python bench/store_postgres.py [--quick] [--parts copy,queries,pipeline] [--readings N]
                                   [--json FILE]

`copy` stores batches of a simulated fleet as a collector's tasks (two, as on two cores, and one)
and its driver do, staging and commit both counted, and in the same run puts readings into a table
with the columns and the key of the design by executemany, which psycopg pipelines, and row by row,
each row's answer awaited. `queries` fills a store with ten million readings, rolls them up, and
asks over HTTP what a dashboard asks. `pipeline` is the whole way, from a broker through Spark.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from etcd_store import collect, rate
from gateway import gateway, http_asker, timed
from gateway_postgres import SETTINGS
from gateway_tables import Filled, Fleets
from pipeline import publish

from nexus.bench.local_broker import LocalBroker
from nexus.bench.local_postgres import LocalPostgres
from nexus.bench.report import Figure, machine, print_table, save
from nexus.pipeline.narrow import Narrower
from nexus.pipeline.sink.postgres_writer import Job, PostgresWriter
from nexus.store.postgres.connecting import Connection, connect
from nexus.store.postgres.dictionary import Dictionary
from nexus.store.postgres.layout import columns
from nexus.store.postgres.lock import PostgresLock
from nexus.store.postgres.rolling import WIDTHS, Roller
from nexus.store.postgres.staging import last_batch, make_staging, merge
from nexus.store.postgres.url import parse_postgres_url
from nexus.store.postgres.writing import Part, Stager, parts_of
from nexus.telemetry.identity import IDENTITY_COLUMNS
from nexus.telemetry.reading import READING_SCHEMA, plain
from nexus.telemetry.scalars import scalar

FULL, QUICK = 10_000_000, 1_000_000  # readings to be asked for
COPIED, COPIED_QUICK = 2_000_000, 1_000_000
BATCH: Final = 200_000
ONE_BY_ONE: Final = 20_000  # readings by executemany
ROUNDS, ROUNDS_QUICK = 40, 10
TASKS: Final = 2
MINUTES, MINUTES_QUICK = 20, 6  # of 153,600 readings each


class Writer:
    """Stores batches as some tasks, each with a connection of its own, and one driver do."""

    def __init__(self, url: str, tasks: int = TASKS) -> None:
        self._place = parse_postgres_url(url)
        self._lock = PostgresLock(self._place, "bench")
        self._lock.acquire()
        self.connection, self.turn = self._lock.held()
        make_staging(self.connection, self.turn)
        self._tasks = [(connect(self._place, "task"), Dictionary()) for _ in range(tasks)]
        self._pool = ThreadPoolExecutor(tasks)
        self._number = last_batch(self.connection, "bench")

    def add(self, rows: pa.Table) -> None:
        """Rows as `as_task_gets` makes them, as one batch."""
        shares = shared_out(rows, len(self._tasks))
        parts = parts_of(self._pool.map(self._staged, self._tasks, shares))
        self._number += 1
        merge(self.connection, self.turn, "bench", self._number, parts)

    def _staged(self, task: tuple[Connection, Dictionary], rows: pa.Table) -> Part:
        connection, dictionary = task
        stager = Stager(connection, self.turn.epoch, dictionary)
        writer = PostgresWriter(Job(self._place, self.turn, "bench"), stager)
        for batch in rows.to_batches():
            writer.add(batch)
        return writer.finish()

    def roll(self, now_s: int) -> float:
        """Bring the rollups up to date; how long that took."""
        began = time.monotonic()
        for name in WIDTHS:
            now = datetime.fromtimestamp(now_s, UTC)
            roller = Roller(name, timedelta(0), timedelta(0))
            roller.step(self.connection, self.turn, now, drain=True)
        return time.monotonic() - began

    def close(self) -> None:
        self._pool.shutdown()
        for connection, _ in self._tasks:
            connection.close()
        self._lock.release()


def shared_out(rows: pa.Table, tasks: int) -> list[pa.Table]:
    """By their lanes, as Spark deals them to tasks."""
    lanes = rows.column("lane").to_numpy() % tasks
    return [rows.filter(pa.array(lanes == task)) for task in range(tasks)]


def as_task_gets(rows: pa.Table) -> pa.Table:
    """Readings in the form and the order in which Spark gives them to a task."""
    count = rows.num_rows
    zeros = pa.repeat(scalar(0, pa.int32()), count)
    narrow = pa.Table.from_batches(
        list(Narrower().batches(rows, zeros, pa.arange(0, count), zeros))
    )
    order = [("gpu_key", "ascending"), ("timestamp", "ascending"), ("series_a", "ascending")]
    # Null is last for Arrow and first for Spark: contexts have a key of their own.
    ordered = narrow.take(pc.sort_indices(narrow, order))
    return ordered.append_column("refusal", pa.nulls(ordered.num_rows, pa.string()))


def batches(readings: int) -> Iterator[pa.Table]:
    """The first hours of a day in which a thousand GPUs report every three minutes."""
    left = readings
    for rows, _ in Fleets(FULL, int(time.time())).hours():
        for start in range(0, min(rows.num_rows, left), BATCH):
            yield rows.slice(start, BATCH)
        left -= rows.num_rows
        if left <= 0:
            return


def measure_copy(root: Path, quick: bool) -> list[Figure]:
    with LocalPostgres(root / "postgres", DURABLE) as server:
        asked = list(batches(COPIED_QUICK if quick else COPIED))
        made = [as_task_gets(rows) for rows in asked]
        half = len(made) // 2
        by_one = stored(server.url(), 1, made[:half])
        by_two = stored(server.url(), TASKS, made[half:])
        piped = by_executemany(server.url(), asked[-1], pipelined)
        plainly = by_executemany(server.url(), asked[-1], each_alone)
    return [
        Figure("COPY by two tasks, and commit, readings/s", f"{by_two:,.0f}", "80,000"),
        Figure("COPY by one task, and commit, readings/s", f"{by_one:,.0f}", ""),
        Figure("executemany, pipelined, readings/s", f"{piped:,.0f}", ""),
        Figure("row by row, readings/s", f"{plainly:,.0f}", ""),
        Figure("COPY against executemany, pipelined", f"{by_two / piped:.1f} x", "8 x"),
        Figure("COPY against row by row", f"{by_two / plainly:.1f} x", ""),
    ]


def stored(url: str, tasks: int, made: list[pa.Table]) -> float:
    """Batches a second, in readings; the first one makes the tasks know the series."""
    writer = Writer(url, tasks)
    writer.add(made[0])
    rows = sum(each.num_rows for each in made[1:])
    began = time.monotonic()
    for each in made[1:]:
        writer.add(each)
    found: float = rows / (time.monotonic() - began)
    writer.close()
    return found


Rows = list[tuple[Any, ...]]


def pipelined(cursor: psycopg.Cursor[Any], statement: str, rows: Rows) -> None:
    """As psycopg does it: the server's answers come while more rows are sent."""
    cursor.executemany(statement, rows)


def each_alone(cursor: psycopg.Cursor[Any], statement: str, rows: Rows) -> None:
    """As most clients do it: an answer for each row, then the next."""
    for row in rows:
        cursor.execute(statement, row)


def by_executemany(
    url: str, readings: pa.Table, put: Callable[[psycopg.Cursor[Any], str, Rows], None]
) -> float:
    """The same readings into a table with the columns and the identity of the design."""
    rows = plain(readings.slice(0, ONE_BY_ONE)).select(READING_SCHEMA.names)
    said = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    marks = ", ".join(["%s"] * len(rows.column_names))
    key = ", ".join(f'"{name}"' for name in IDENTITY_COLUMNS)
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS peer")
        cursor.execute(f"CREATE TABLE peer ({columns(READING_SCHEMA)}, PRIMARY KEY ({key}))")
        began = time.monotonic()
        put(cursor, f"INSERT INTO peer VALUES ({marks}) ON CONFLICT DO NOTHING", said)
        connection.commit()
        return len(said) / (time.monotonic() - began)


def measure_queries(root: Path, quick: bool, readings: int | None = None) -> list[Figure]:
    readings = readings or (QUICK if quick else FULL)
    with LocalPostgres(root / "postgres", SETTINGS) as server:
        filled, told = fill(server.url(), readings)
        with (
            gateway(server.url()) as address,
            httpx.Client(base_url=address, timeout=60) as client,
        ):
            rounds = ROUNDS_QUICK if quick else ROUNDS
            asked = timed("HTTP", http_asker(client, filled), rounds, goals=True)
    return [Figure("filled", told, ""), *asked]


def fill(url: str, readings: int) -> tuple[Filled, str]:
    """A store with a day of a fleet in it, rolled up."""
    writer, fleets, stored = Writer(url), Fleets(readings, int(time.time())), 0
    began = time.monotonic()
    for rows, _ in fleets.hours():
        stored += rows.num_rows
        for start in range(0, rows.num_rows, BATCH):
            writer.add(as_task_gets(rows.slice(start, BATCH)))
    load_s = time.monotonic() - began
    rolled_s = writer.roll(fleets.end_s + 120)
    writer.connection.execute("VACUUM ANALYZE")
    row = writer.connection.execute(
        "SELECT pg_database_size(current_database()),"
        " (SELECT sum(rows)::bigint FROM store_held WHERE name LIKE 'rollup%')"
    ).fetchone()
    assert row is not None
    writer.close()
    told = f"{stored:,} readings, {row[0] / 1e6:,.0f} MB, rolled up in {rolled_s:.0f} s"
    print(f"  {told}, made and stored in {load_s:.0f} s", flush=True)
    return fleets.filled(stored, int(row[1])), told


def measure_pipeline(root: Path, quick: bool) -> list[Figure]:
    with (
        LocalBroker(root / "broker") as broker,
        LocalPostgres(root / "postgres", DURABLE) as server,
    ):
        publish(broker.bootstrap, "telemetry", "arrow", MINUTES_QUICK if quick else MINUTES)
        done = collect(f"kafka://{broker.bootstrap}/telemetry", server.url(), root, BATCH)
    return [Figure("broker through Spark, readings/s", f"{rate(done):,.0f}", "80,000")]


# What a server is given that has a machine of two cores to itself; commits reach the disk.
DURABLE: Final = {**SETTINGS, "synchronous_commit": "on", "wal_level": "replica"}
Measure = Callable[[Path, bool], list[Figure]]
MEASURES: Final[Mapping[str, Measure]] = {"copy": measure_copy, "pipeline": measure_pipeline}


def main(
    measures: Mapping[str, Measure],
    queries: Callable[[Path, bool, int | None], list[Figure]],
    about: str,
) -> None:
    """Measure what the command line names, and say what came out."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="small amounts, to see that it works")
    parser.add_argument("--parts", default=",".join([*measures, "queries"]), help="which of them")
    parser.add_argument("--readings", type=int, help="to be asked for, instead of the usual number")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    arguments = parser.parse_args()
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)  # PostgreSQL runs as another user inside
        setting = machine(root)
        print(setting, flush=True)
        for part in arguments.parts.split(","):
            print(f"… {part}", flush=True)
            place = root / part
            place.mkdir()
            if part == "queries":
                found += queries(place, arguments.quick, arguments.readings)
            else:
                found += measures[part](place, arguments.quick)
            shutil.rmtree(place, ignore_errors=True)
    print_table(found)
    if arguments.json:
        save(arguments.json, setting, found)


if __name__ == "__main__":
    main(MEASURES, measure_queries, __doc__.partition("\n")[0])
