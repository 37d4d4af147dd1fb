"""Real InfluxDB, started by tests, and stores in it filled as a writing task does it."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from nexus.bench.local_influx import LocalInflux
from nexus.lake.url import StoreUrl
from nexus.pipeline.frontier import Frontier
from nexus.pipeline.narrow import Narrower
from nexus.pipeline.sink.influx_sink import entry_of, load_frontier
from nexus.pipeline.sink.influx_writer import InfluxWriter, Job, Wrote
from nexus.store.influx.journal import Entry, State
from nexus.store.influx.lock import InfluxLock
from nexus.store.influx.newest import LatestTable
from nexus.store.influx.reading import Reader
from nexus.store.influx.rolling import Roller
from nexus.store.influx.texts import Texts
from nexus.store.influx.url import parse_influx_url
from nexus.store.influx.writing import Contexts, Writer
from nexus.store.port import ANY
from nexus.store.questions.database import Database
from nexus.store.questions.rolled import WIDTHS
from nexus.store.questions.spans import Stretch
from nexus.telemetry.tables import TABLES
from support.needs import missing

ALWAYS = Stretch(0, 2**60)


@contextmanager
def influx_server(http: str = "", scheme: str = "http") -> Iterator[LocalInflux]:
    if shutil.which("influxd") is None:
        missing("InfluxDB is not installed (`make packages` installs it)")
    folder = Path(tempfile.mkdtemp(prefix="nexus-influx-"))
    try:
        with LocalInflux(folder, http, scheme) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(server: LocalInflux, name: str) -> str:
    """The address of a database that is not there yet."""
    return server.url(f"{name}_{secrets.token_hex(4)}")


class InfluxFilled:
    """A store that nobody else writes to."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.place = parse_influx_url(url)
        self.lock = InfluxLock(self.place, "test")
        self.number = -1
        self.contexts = Contexts()

    def __enter__(self) -> InfluxFilled:
        self.lock.acquire()
        self.number = self.state.apps.get("test", -1)
        self.database = Database(StoreUrl("/"))
        self.reader = Reader(self.lock.influx, Texts(self.lock.influx))
        self._rollers = [Roller(name, self.reader, self.database) for name in WIDTHS]
        self._latest = LatestTable(self.reader, self.database)
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()
        self.database.close()

    @property
    def state(self) -> State:
        return self.lock.held()[0]

    def add(self, rows: pa.Table) -> int:
        """Store readings as one batch; how many were written."""
        wrote = self.written(rows)
        self.commit(wrote)
        return wrote.readings

    def written(self, rows: pa.Table, *, again: bool = False) -> Wrote:
        """What a task does with readings (READING_SCHEMA) that Spark gives it."""
        frontier = Frontier() if again else load_frontier(self.lock, self.state)
        count = rows.num_rows
        zeros = pa.repeat(pa.scalar(0, pa.int32()), count)
        narrow = Narrower().batches(rows, zeros, pa.arange(0, count), zeros)
        job, task = Job(self.place, "", "t", 0), Writer(self.lock.influx, self.contexts)
        writer = InfluxWriter(job, task, frontier)
        for batch in narrow:
            writer.add(batch.append_column("refusal", pa.nulls(batch.num_rows, pa.string())))
        return writer.finish()

    def refuse(self, rows: pa.Table) -> None:
        """Store rows of the table `quarantine`."""
        writer = Writer(self.lock.influx, self.contexts)
        writer.refuse(rows.drop_columns(["day"]))
        self.commit(Wrote(0, 0, writer.refused, "[]"))

    def commit(self, wrote: Wrote) -> None:
        self.number += 1
        self.lock.commit(entry_of("test", self.number, [wrote], 1_752_840_000_000_000))

    def roll(self) -> None:
        """Bring what is derived up to date."""
        now = time.time_ns() // 1000
        for roller in self._rollers:
            roller.step(self.lock, now, 0, 0, drain=True)
        version = self._latest.step(self.state)
        if version is not None:
            self.lock.commit(Entry(now, latest=version))

    def table(self, name: str) -> pa.Table:
        """Readings or a rollup as the database has them."""
        rows = self.reader.table(self.state, name, [ALWAYS], ANY)
        moment = "timestamp" if name == "readings" else "start"
        rows = rows.append_column("day", rows.column(moment).cast(pa.date32()))
        schema = TABLES[name].schema
        return rows.select(schema.names).cast(schema)
