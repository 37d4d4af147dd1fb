"""Stores batches in InfluxDB: points by the tasks, and last a commit in the journal by the driver.

A batch that was stored is known by its number in the journal. One that was begun is played again,
and its points take their own places: nothing of it is there twice.
"""

from __future__ import annotations

import time
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from nexus.lake.url import StoreUrl
from nexus.pipeline.frontier import FRONTIER_SCHEMA, Frontier
from nexus.pipeline.narrow import series_numbers
from nexus.pipeline.order import in_order
from nexus.pipeline.sink.influx_writer import WROTE_DDL, Job, Wrote, came_of_all, write_rows
from nexus.pipeline.sink.port import Batch, Stored, refuse_a_gap
from nexus.store.influx.journal import Came, Entry, State
from nexus.store.influx.lock import InfluxLock
from nexus.store.influx.newest import LastReadings
from nexus.store.influx.reading import Reader
from nexus.store.influx.texts import Texts
from nexus.store.questions.database import Database

_NO_FILES: Final = StoreUrl("/")


class InfluxSink:
    """A store in InfluxDB, for the holder of its turn, which is taken with the first batch."""

    def __init__(self, spark: SparkSession, lock: InfluxLock) -> None:
        self._spark = spark
        self._lock = lock
        self._frontier: Frontier | None = None

    def store(self, batch: Batch) -> Stored:
        """Store a batch once, however often it is given."""
        state, _ = self._lock.held()
        last = state.apps.get(batch.app, -1)
        if last >= batch.number:
            return Stored(replayed=True)
        refuse_a_gap(self._lock.place, batch, last)
        frontier, self._frontier = self._frontier, None  # unknown until all is well
        if frontier is None:
            frontier = load_frontier(self._lock, state)
        begun_us, is_replay = self._lock.begun(batch.app, batch.number, _now_us())
        job = Job(self._lock.place, state.identity, batch.origin, begun_us)
        # What is there of a batch that was begun before is its own: it must not be left out.
        wrote = self._written(batch, job, Frontier() if is_replay else frontier)
        batch.check()
        version = self._lock.commit(entry_of(batch.app, batch.number, wrote, begun_us)).version
        ends = [Frontier.from_bytes(bytes(each.ends)).table for each in wrote if each.ends]
        self._frontier = frontier.advanced(ends)
        return Stored(
            readings=sum(each.readings for each in wrote),
            duplicates=sum(each.copies for each in wrote),
            quarantined=sum(each.refused for each in wrote),
            version=version,
        )

    def _written(self, batch: Batch, job: Job, frontier: Frontier) -> list[Wrote]:
        """One Spark job: write all points, and learn what that came to."""
        sent = self._spark.sparkContext.broadcast(frontier.to_bytes())
        try:
            write = write_rows(job, lambda: Frontier.from_bytes(sent.value))
            rows = in_order(batch.rows, self._spark.sparkContext.defaultParallelism)
            return [Wrote(**row.asDict()) for row in rows.mapInArrow(write, WROTE_DDL).collect()]
        finally:
            sent.destroy()


def load_frontier(lock: InfluxLock, state: State) -> Frontier:
    """How far every series is stored."""
    database = Database(_NO_FILES)
    try:
        reader = Reader(lock.influx, Texts(lock.influx))
        last = LastReadings(reader, database).at(state).state.last
    finally:
        database.close()
    series, _ = series_numbers(last)
    columns = [pa.array(series), last.column("timestamp")]
    return Frontier().advanced([pa.table(columns, schema=FRONTIER_SCHEMA)])


def entry_of(app: str, number: int, wrote: list[Wrote], refused_us: int) -> Entry:
    """The commit of a batch."""
    came = {"readings": came_of_all(wrote)}
    refused = sum(each.refused for each in wrote)
    if refused:
        came["quarantine"] = [Came(refused_us, refused, refused_us, refused_us, refused_us)]
    return Entry(_now_us(), app, number, came)


def _now_us() -> int:
    return time.time_ns() // 1000
