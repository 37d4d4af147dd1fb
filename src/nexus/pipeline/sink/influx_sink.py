"""Stores batches in InfluxDB: points by the tasks, and last a commit in the journal by the driver.

A batch that was stored is known by its number in the journal. One that was begun is played again,
and its points take their own places: nothing of it is there twice.
"""

from __future__ import annotations

import time

from pyspark.sql import SparkSession

from nexus.pipeline.order import in_order
from nexus.pipeline.sink.influx_writer import WROTE_DDL, Job, Wrote, came_of_all, write_rows
from nexus.pipeline.sink.port import Batch, Stored, refuse_a_gap
from nexus.store.influx.journal import Came, Entry
from nexus.store.influx.lock import InfluxLock


class InfluxSink:
    """A store in InfluxDB, for the holder of its turn, which is taken with the first batch."""

    def __init__(self, spark: SparkSession, lock: InfluxLock) -> None:
        self._spark = spark
        self._lock = lock

    def store(self, batch: Batch) -> Stored:
        """Store a batch once, however often it is given."""
        place = self._lock.place
        state, _ = self._lock.held()
        last = state.apps.get(batch.app, -1)
        if last >= batch.number:
            return Stored(replayed=True)
        refuse_a_gap(place, batch, last)
        begun_us = self._lock.begun(batch.app, batch.number, _now_us())
        job = Job(place, state.identity, batch.origin, begun_us)
        rows = in_order(batch.rows, self._spark.sparkContext.defaultParallelism)
        found = rows.mapInArrow(write_rows(job), WROTE_DDL).collect()
        wrote = [Wrote(**row.asDict()) for row in found]
        batch.check()
        entry = entry_of(batch.app, batch.number, wrote, begun_us)
        version = self._lock.commit(entry).version
        return Stored(
            readings=sum(each.readings for each in wrote),
            duplicates=sum(each.copies for each in wrote),
            quarantined=sum(each.refused for each in wrote),
            version=version,
        )


def entry_of(app: str, number: int, wrote: list[Wrote], refused_us: int) -> Entry:
    """The commit of a batch."""
    came = {"readings": came_of_all(wrote)}
    refused = sum(each.refused for each in wrote)
    if refused:
        came["quarantine"] = [Came(refused_us, refused, refused_us, refused_us, refused_us)]
    return Entry(_now_us(), app, number, came)


def _now_us() -> int:
    return time.time_ns() // 1000
