"""Stores batches in Delta tables: files by the tasks, one commit a table by the driver.

A commit carries the batch's number, so a batch that comes again is known. `quarantine` is
committed before `readings`, whose commit ends a batch: a crash between repeats work, not rows.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from nexus.lake.fence import Fence
from nexus.lake.files import NewFile, TableFiles
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.pipeline import table_source
from nexus.pipeline.frontier import Frontier
from nexus.pipeline.order import in_order
from nexus.pipeline.sink.known import load_frontier, not_stored
from nexus.pipeline.sink.port import Batch, Stored, refuse_a_gap
from nexus.pipeline.sink.writer import (
    LATE,
    QUARANTINE,
    READINGS,
    WRITTEN_DDL,
    Written,
    write_rows,
    written_of,
)
from nexus.telemetry.tables import TABLES


class DeltaSink:
    """The tables `readings` and `quarantine` of one store; for the holder of its lock."""

    def __init__(self, spark: SparkSession, store: StoreUrl, fence: Fence) -> None:
        table_source.register(spark)
        self._spark = spark
        self._store = store
        self._fence = fence
        self._readings = LakeTable.open(store, TABLES[READINGS])
        self._quarantine = LakeTable.open(store, TABLES[QUARANTINE])
        self._frontier: Frontier | None = None

    def store(self, batch: Batch) -> Stored:
        """Store a batch once, however often it is given."""
        if _has(self._readings, batch):
            return Stored(replayed=True)
        last = self._readings.transaction_version(batch.app)
        refuse_a_gap(self._store, batch, -1 if last is None else last)
        if self._frontier is None:
            self._frontier = load_frontier(self._store, self._readings)
        frontier, self._frontier = self._frontier, None  # unknown until all is well
        stored, ends = self._store_new(batch, frontier)
        self._frontier = frontier.advanced(ends)
        return stored

    def _store_new(self, batch: Batch, frontier: Frontier) -> tuple[Stored, list[pa.Table]]:
        written = self._written(batch.rows, batch.origin, frontier)
        late = _files(written, LATE)
        found = self._not_stored(late, batch.origin) if late else []
        refused = _files(written, QUARANTINE)
        new = _files(written, READINGS) + _files(found, READINGS)
        batch.check()
        if refused and not _has(self._quarantine, batch):
            self._quarantine.append(refused, batch.app, batch.number, self._fence)
        version = self._readings.append(new, batch.app, batch.number, self._fence)
        TableFiles(self._store, TABLES[READINGS]).remove([file.path for file in late])
        stored = Stored(
            readings=_rows(new),
            duplicates=_copies(written) + _rows(late) - _rows(_files(found, READINGS)),
            late=_rows(late),
            quarantined=_rows(refused),
            version=version,
        )
        return stored, [Frontier.from_bytes(w.ends).table for w in written if w.ends]

    def _written(self, rows: DataFrame, origin: str, frontier: Frontier) -> list[Written]:
        """One Spark job: order the rows, write the files, and learn what was written."""
        sent = self._spark.sparkContext.broadcast(frontier.to_bytes())
        try:
            write = write_rows(self._store, origin, lambda: Frontier.from_bytes(sent.value))
            ordered = in_order(rows, self._spark.sparkContext.defaultParallelism)
            return [written_of(row) for row in ordered.mapInArrow(write, WRITTEN_DDL).collect()]
        finally:
            sent.destroy()

    def _not_stored(self, late: Sequence[NewFile], origin: str) -> list[Written]:
        """Write anew, of the readings that may be stored already, those that are not."""
        rows = not_stored(self._spark, self._store, self._readings, late)
        return self._written(rows, origin, Frontier())


def _has(table: LakeTable, batch: Batch) -> bool:
    table.refresh()
    last = table.transaction_version(batch.app)
    return last is not None and last >= batch.number


def _files(written: Sequence[Written], role: str) -> list[NewFile]:
    return [w.file for w in written if w.role == role and w.file is not None]


def _rows(files: Sequence[NewFile]) -> int:
    return sum(file.rows for file in files)


def _copies(written: Sequence[Written]) -> int:
    return sum(w.copies for w in written)
