"""Measures InfluxDB as a store: how fast it takes readings, and how fast it answers.

    python bench/store_influx.py [--quick] [--parts lines,queries,pipeline] [--readings N]
                                 [--json FILE]

`lines` stores batches of a simulated fleet as a collector's tasks do, with and without gzip, and in
the same run only builds the lines. `queries` fills a store, rolls it up, and asks over HTTP what a
dashboard asks. `pipeline` is the whole way, from a broker through Spark.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import httpx
import pyarrow as pa
from etcd_store import collect, rate
from gateway import gateway, http_asker, timed
from gateway_tables import Filled, Fleets
from pipeline import publish
from store_postgres import BATCH, Measure, as_task_gets, batches, main

from nexus.bench.local_broker import LocalBroker
from nexus.bench.local_influx import LocalInflux
from nexus.bench.report import Figure
from nexus.lake.url import StoreUrl
from nexus.pipeline.sink.influx_sink import entry_of
from nexus.pipeline.sink.influx_writer import InfluxWriter, Job, Wrote
from nexus.store.influx.journal import Entry
from nexus.store.influx.lock import InfluxLock
from nexus.store.influx.newest import LatestTable
from nexus.store.influx.reading import Reader
from nexus.store.influx.rolling import Roller
from nexus.store.influx.talking import Influx
from nexus.store.influx.texts import Texts
from nexus.store.influx.url import parse_influx_url
from nexus.store.influx.writing import Contexts, Writer
from nexus.store.questions.database import Database
from nexus.store.questions.rolled import WIDTHS

FULL, QUICK = 3_000_000, 500_000  # readings to be asked for
WRITTEN, WRITTEN_QUICK = 1_000_000, 600_000
TASKS: Final = 2
ROUNDS, ROUNDS_QUICK = 40, 10
MINUTES, MINUTES_QUICK = 20, 6  # of 153,600 readings each


class Stores:
    """Stores batches as some tasks and one driver do."""

    def __init__(self, url: str) -> None:
        self._place = parse_influx_url(url)
        self.lock = InfluxLock(self._place, "bench")
        self.lock.acquire()
        self._clients = [(Influx(self._place), Contexts()) for _ in range(TASKS)]
        self._number = -1

    def add(self, tasks: list[pa.Table]) -> None:
        """Rows as `as_task_gets` makes them, a table for each task, as one batch."""
        with ThreadPoolExecutor(TASKS) as pool:
            wrote = list(pool.map(self._written, tasks, self._clients))
        self._number += 1
        self.lock.commit(entry_of("bench", self._number, wrote, 0))

    def roll(self, now_s: int) -> float:
        """Bring what is derived up to date; how long that took."""
        began = time.monotonic()
        database = Database(StoreUrl("/"))
        reader = Reader(self.lock.influx, Texts(self.lock.influx))
        for name in WIDTHS:
            Roller(name, reader, database).step(self.lock, now_s * 1_000_000, 0, 0, drain=True)
        version = LatestTable(reader, database).step(self.lock.held()[0])
        self.lock.commit(Entry(now_s * 1_000_000, latest=version or 0))
        database.close()
        return time.monotonic() - began

    def close(self) -> None:
        for client, _ in self._clients:
            client.close()
        self.lock.release()

    def _written(self, rows: pa.Table, told: tuple[Influx, Contexts]) -> Wrote:
        writer = InfluxWriter(Job(self._place, "", "bench", 0), Writer(*told))
        for batch in rows.to_batches():
            writer.add(batch)
        return writer.finish()


def as_tasks_get(rows: pa.Table) -> list[pa.Table]:
    """A batch as its tasks get it."""
    share = -(-rows.num_rows // TASKS)
    return [as_task_gets(rows.slice(n * share, share)) for n in range(TASKS)]


def measure_lines(root: Path, quick: bool) -> list[Figure]:
    found = []
    made = [as_tasks_get(rows) for rows in batches(WRITTEN_QUICK if quick else WRITTEN)]
    for options, told in (("gzip=false", "plain"), ("gzip=true", "gzip")):
        with LocalInflux(root / told) as server:
            stores = Stores(server.url("bench", options))
            stores.add(made[0])  # every series is new in it
            began = time.monotonic()
            for tasks in made[1:]:
                stores.add(tasks)
            rows = sum(each.num_rows for tasks in made[1:] for each in tasks)
            speed = rows / (time.monotonic() - began)
            stores.close()
        found.append(Figure(f"lines and commit, {told}, readings/s", f"{speed:,.0f}", "50,000"))
    return found


def measure_queries(root: Path, quick: bool, readings: int | None = None) -> list[Figure]:
    readings = readings or (QUICK if quick else FULL)
    with LocalInflux(root / "influx") as server:
        url = server.url("bench")
        filled, told = fill(url, readings)
        with gateway(url) as address, httpx.Client(base_url=address, timeout=60) as client:
            rounds = ROUNDS_QUICK if quick else ROUNDS
            asked = timed("HTTP", http_asker(client, filled), rounds, goals=True)
    return [Figure("filled", told, ""), *asked]


def fill(url: str, readings: int) -> tuple[Filled, str]:
    """A store with a day of a fleet in it, rolled up."""
    stores, fleets, stored = Stores(url), Fleets(readings, int(time.time())), 0
    began = time.monotonic()
    for rows, _ in fleets.hours():
        stored += rows.num_rows
        for start in range(0, rows.num_rows, BATCH):
            stores.add(as_tasks_get(rows.slice(start, BATCH)))
    load_s = time.monotonic() - began
    rolled_s = stores.roll(fleets.end_s + 120)
    held = stores.lock.held()[0].held
    windows = sum(came.rows for name in WIDTHS for came in held.get(name, {}).values())
    stores.close()
    told = f"{stored:,} readings, rolled up in {rolled_s:.0f} s"
    print(f"  {told}, made and stored in {load_s:.0f} s", flush=True)
    return fleets.filled(stored, windows), told


def measure_pipeline(root: Path, quick: bool) -> list[Figure]:
    with LocalBroker(root / "broker") as broker, LocalInflux(root / "influx") as server:
        publish(broker.bootstrap, "telemetry", "arrow", MINUTES_QUICK if quick else MINUTES)
        done = collect(f"kafka://{broker.bootstrap}/telemetry", server.url("bench"), root, BATCH)
    return [Figure("broker through Spark, readings/s", f"{rate(done):,.0f}", "50,000")]


MEASURES: Final[Mapping[str, Measure]] = {"lines": measure_lines, "pipeline": measure_pipeline}

if __name__ == "__main__":
    main(MEASURES, measure_queries, __doc__.partition("\n")[0])
