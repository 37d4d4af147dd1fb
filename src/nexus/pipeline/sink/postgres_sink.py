"""Stores batches in PostgreSQL: rows by the tasks into staging, one transaction by the driver.

The transaction moves the staged rows to where they belong, notes what is last of each series, and
carries the batch's number: a batch that comes again is known by it, whatever crashed in between.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from nexus.pipeline.order import PLACE, in_order
from nexus.pipeline.sink.port import Batch, Stored, refuse_a_gap
from nexus.pipeline.sink.postgres_writer import STAGED_DDL, Job, stage_rows
from nexus.store.postgres.connecting import as_store_errors
from nexus.store.postgres.lock import PostgresLock, Turn
from nexus.store.postgres.staging import Parts, last_batch, make_staging, merge
from nexus.store.postgres.writing import Part, parts_of


class PostgresSink:
    """A store in PostgreSQL, for the holder of its lock; it is taken with the first batch."""

    def __init__(self, spark: SparkSession, lock: PostgresLock) -> None:
        self._spark = spark
        self._lock = lock
        self._staged_for: Turn | None = None

    def store(self, batch: Batch) -> Stored:
        """Store a batch once, however often it is given."""
        place = self._lock.place
        with as_store_errors(place):
            connection, turn = self._lock.held()
            last = last_batch(connection, batch.app)
            if last >= batch.number:
                return Stored(replayed=True)
            refuse_a_gap(place, batch, last)
            if self._staged_for != turn:
                make_staging(connection, turn)
                self._staged_for = turn
        staged, copies = self._staged(batch, turn)
        batch.check()
        with as_store_errors(place):
            merged = merge(connection, turn, batch.app, batch.number, staged)
        return Stored(
            readings=merged.readings,
            duplicates=copies + staged.readings - merged.readings,
            quarantined=staged.refused,
            version=merged.version,
        )

    def _staged(self, batch: Batch, turn: Turn) -> tuple[Parts, int]:
        """One Spark job: put everything into staging, and learn what that came to."""
        job = Job(self._lock.place, turn, batch.origin)
        rows = in_order(batch.rows, self._spark.sparkContext.defaultParallelism, PLACE)
        found = [row.asDict() for row in rows.mapInArrow(stage_rows(job), STAGED_DDL).collect()]
        copies = sum(row.pop("copies") for row in found)
        return parts_of(Part(**row) for row in found), copies
