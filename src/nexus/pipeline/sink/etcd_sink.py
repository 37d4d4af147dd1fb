"""Stores batches in etcd: keys by the tasks, and by the driver the number of the batch, last.

A batch that was stored is known by its number. One that was begun is played again: its keys are
the same as before, and those that are there stay as they are. Where queue and store are one etcd,
tasks also take the messages out of the queue, chunk by chunk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from nexus.etcd import Client, Put, mod_revision
from nexus.lake.errors import BatchesLost
from nexus.pipeline.order import as_they_came, in_order
from nexus.pipeline.sink.etcd_writer import WROTE_DDL, Job, Taking, Wrote, write_rows
from nexus.pipeline.sink.port import Batch, Stored, refuse_a_gap
from nexus.store.etcd.faults import as_store_errors
from nexus.store.etcd.lock import EtcdWriterLock
from nexus.store.etcd.marks import Mark
from nexus.store.etcd.writing import write


class EtcdSink:
    """A store in etcd, for the holder of its lock.

    With `taking`, the batches' rows have acknowledgements in them.
    """

    def __init__(
        self,
        spark: SparkSession,
        lock: EtcdWriterLock,
        taking: Callable[[], Taking] | None = None,
    ) -> None:
        self._spark = spark
        self._store = lock.store
        self._lock = lock
        self._taking = taking

    def store(self, batch: Batch) -> Stored:
        """Store a batch once, however often it is given."""
        with as_store_errors(self._store):
            mark, revision = self._mark(batch.app)
            if mark.number >= batch.number:
                return Stored(replayed=True)
            refuse_a_gap(self._store, batch, mark.number)
            mark, revision = self._begun(batch, mark, revision)
        wrote = self._written(batch, mark.begun_us)
        batch.check()
        with as_store_errors(self._store):
            done = replace(mark, number=batch.number, at_us=_now_us())
            version = self._put(batch.app, done, revision)
        return Stored(
            readings=wrote.readings,
            duplicates=wrote.copies,
            quarantined=wrote.refused,
            version=version,
        )

    def _written(self, batch: Batch, refused_us: int) -> Wrote:
        """One Spark job: put everything, and learn what that came to."""
        taking = None if self._taking is None else self._taking()
        job = Job(self._store, self._lock.fence, batch.origin, refused_us, taking)
        tasks = self._spark.sparkContext.defaultParallelism
        rows = in_order(batch.rows, tasks) if taking is None else as_they_came(batch.rows)
        whole = Wrote()
        for row in rows.mapInArrow(write_rows(job), WROTE_DDL).collect():
            whole = whole.plus(Wrote(row.readings, row.copies, row.refused))
        return whole

    def _begun(self, batch: Batch, mark: Mark, revision: int) -> tuple[Mark, int]:
        """Note when a batch was begun, once: what it refuses has that time in every replay."""
        if mark.begun == batch.number:
            return mark, revision
        begun = replace(mark, begun=batch.number, begun_us=_now_us())
        return begun, self._put(batch.app, begun, revision)

    def _mark(self, app: str) -> tuple[Mark, int]:
        found = self._lock.client.get(self._key(app))
        return (Mark(), 0) if found is None else (Mark.of(found.value), found.mod_revision)

    def _put(self, app: str, mark: Mark, before: int) -> int:
        key, value = self._key(app), mark.to_json()

        async def put(client: Client) -> int:
            done = await write(
                client, self._lock.fence, [Put(key, value)], [mod_revision(key).equals(before)]
            )
            if done:
                return done
            found = await client.get(key)  # an earlier sending, whose answer was lost
            if found is None or found.value != value:
                raise BatchesLost(f"store {self._store}: somebody changed {key.decode()}")
            return found.mod_revision

        return self._lock.client.run(put)

    def _key(self, app: str) -> bytes:
        return self._store.layout.meta("batches", app)


def _now_us() -> int:
    return time.time_ns() // 1000
