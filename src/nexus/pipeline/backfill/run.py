"""The backfill: an archive of CSV, chunk by chunk, through the checks into a store.

A chunk is stored once, by what is in it. So a run that was cut off goes on where it was, and a
second run over the same files changes nothing. A reading's `ingested` is the time of the run,
which is how an archive of old readings outlives the retention by their timestamps.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from nexus.pipeline.backfill.archive import archive_files
from nexus.pipeline.backfill.csv_source import NAME, register
from nexus.pipeline.backfill.errors import plain_error, wrong_split
from nexus.pipeline.backfill.plan import (
    CHUNK_BYTES,
    SPLIT_BYTES,
    Chunk,
    Limits,
    chunks_of,
    in_one_piece,
    pieces_of,
    to_json,
)
from nexus.pipeline.backfill.watch import Watch
from nexus.pipeline.sink.port import Batch, Sink, Stored
from nexus.pipeline.validate import validate

_TASKS_A_CHUNK: Final = 8  # at least, if there is that much to read
_SPLIT_BYTES_MIN: Final = 1024

# Spark's errors reach Python in one of these, depending on how deep in Spark they arose.
_FROM_SPARK: Final = (PySparkException, Py4JJavaError)

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Totals:
    """What became of an archive."""

    files: int = 0
    bytes: int = 0  # of text, about
    chunks: int = 0
    replayed: int = 0  # chunks that the store had already
    readings: int = 0  # that are new in the store
    duplicates: int = 0
    late: int = 0
    quarantined: int = 0

    def with_chunk(self, chunk: Chunk, stored: Stored) -> "Totals":
        return replace(
            self,
            bytes=self.bytes + chunk.size,
            chunks=self.chunks + 1,
            replayed=self.replayed + stored.replayed,
            readings=self.readings + stored.readings,
            duplicates=self.duplicates + stored.duplicates,
            late=self.late + stored.late,
            quarantined=self.quarantined + stored.quarantined,
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a backfill is; bytes move within a chunk too."""

    totals: Totals
    bytes_done: int
    bytes_total: int
    chunks_total: int


def run_backfill(
    spark: SparkSession,
    csv_url: str,
    sink: Sink,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Callable[[Progress], None] | None = None,
    cluster: str = "",
    split_bytes: int = SPLIT_BYTES,
) -> Totals:
    """Store every reading of the files that a `csv://` URL, a path or a pattern names."""
    register(spark)
    files = archive_files(csv_url)
    split = min(split_bytes, max(_SPLIT_BYTES_MIN, chunk_bytes // _TASKS_A_CHUNK))
    pieces = [piece for file in files for piece in pieces_of(file, split)]
    run = _Run(spark, sink, csv_url, cluster, progress or _nobody)
    return run.store(chunks_of(pieces, Limits(chunk_bytes)), Totals(files=len(files)))


class _Run:
    """One run over an archive."""

    def __init__(
        self,
        spark: SparkSession,
        sink: Sink,
        origin: str,
        cluster: str,
        progress: Callable[[Progress], None],
    ) -> None:
        self._spark = spark
        self._sink = sink
        self._origin = origin
        self._progress = progress
        self._options = {"cluster": cluster, "ingested": str(time.time_ns() // 1000)}

    def store(self, chunks: list[Chunk], totals: Totals) -> Totals:
        total = sum(chunk.size for chunk in chunks)

        def show(within: float = 0.0) -> None:
            done = totals.bytes + round(within)
            self._progress(Progress(totals, min(done, total), total, len(chunks)))

        at = 0
        show()
        while at < len(chunks):
            try:
                with Watch(self._spark, chunks[at].size, show):
                    stored = self._stored(chunks[at])
            except _FROM_SPARK as error:
                chunks = _planned_anew(chunks, at, error)
                continue
            totals = totals.with_chunk(chunks[at], stored)
            at += 1
            show()
        return totals

    def _stored(self, chunk: Chunk) -> Stored:
        return self._sink.store(Batch(self._checked(chunk), chunk.app, 0, self._origin))

    def _checked(self, chunk: Chunk) -> DataFrame:
        source = self._spark.read.format(NAME).options(**self._options)
        return validate(source.option("pieces", to_json(chunk.pieces)).load())


def _planned_anew(chunks: list[Chunk], at: int, error: Exception) -> list[Chunk]:
    """The chunks without the splits that were found wrong; any other error goes on its way."""
    file = wrong_split(error)
    if file is None:
        raise (plain_error(error) or error) from None
    path = next(piece.path for piece in chunks[at].pieces if piece.file == file)
    _log.warning("%s has line ends inside of cells where it was split; it is read in one go", path)
    return in_one_piece(chunks, at, file)


def _nobody(_: Progress) -> None:
    """Nobody looks."""
