"""`spark.read.format("nexus-csv")`: archives of CSV, in batch, in the narrow form.

| option | default | meaning |
|---|---|---|
| path | | a file, a folder, a pattern, or one of these as `csv://…`; what `load` is given |
| split_bytes | 64 MiB | how much of a plain file a task reads; 0 reads every file in one piece |
| cluster | none | the cluster of readings that do not name theirs |
| ingested | now | when the readings were taken, in microseconds since 1970 |
| pieces | | instead of a path: a part of a plan, as `run_backfill` makes it |

The files must have the same path on every machine that reads them.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from nexus.pipeline.backfill.archive import archive_files
from nexus.pipeline.backfill.pieces import PieceReader, Stamp
from nexus.pipeline.backfill.plan import SPLIT_BYTES, Piece, from_json, pieces_of, tasks_of
from nexus.pipeline.narrow import NARROW_SCHEMA

NAME: Final = "nexus-csv"


def register(spark: SparkSession) -> None:
    """Make the source known to a session; safe to call twice."""
    spark.dataSource.register(NexusCsv)


class NexusCsv(DataSource):
    """The data source by its name."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(NARROW_SCHEMA)

    def reader(self, schema: StructType) -> "CsvReader":
        return CsvReader(self.options)


@dataclass
class CsvTask(InputPartition):
    """What one task reads."""

    pieces: tuple[Piece, ...]


class CsvReader(DataSourceReader):
    """Plans on the driver, reads in the workers."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._path = options.get("path", "")
        self._pieces = options.get("pieces", "")
        self._split_bytes = int(options.get("split_bytes", SPLIT_BYTES))
        now_us = time.time_ns() // 1000
        self._stamp = Stamp(int(options.get("ingested", now_us)), options.get("cluster", ""))

    def partitions(self) -> list[InputPartition]:
        """Pieces of about equal size, small files together."""
        if self._pieces:
            pieces = from_json(self._pieces)
        else:
            files = archive_files(self._path)
            pieces = [piece for file in files for piece in pieces_of(file, self._split_bytes)]
        return [CsvTask(share) for share in tasks_of(pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CsvTask)
        reader = PieceReader(self._stamp)
        for piece in partition.pieces:
            yield from reader.read(piece)
