"""The PySpark data source "nexus-table": rows of a Delta table, by files, versions or times.

`spark.read` and `spark.readStream` plan on the driver from the table's log alone; workers read
the files. `table_options` says what it can be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from nexus.lake.files import TableFiles
from nexus.lake.table import LakeTable
from nexus.pipeline.narrow import NARROW_SCHEMA, Narrower
from nexus.pipeline.table_options import TableOptions, parse_table_options, shares

NAME: Final = "nexus-table"
NARROW_ROWS: Final = 262_144  # contexts are told apart once a batch


def register(spark: SparkSession) -> None:
    """Make the source known to a session; safe to call twice."""
    spark.dataSource.register(NexusTable)


@dataclass(frozen=True)
class TableTask(InputPartition):
    """The files that one task reads."""

    paths: tuple[str, ...]


class NexusTable(DataSource):
    """The data source by its name."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(_schema(parse_table_options(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(parse_table_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        return VersionReader(parse_table_options(self.options))


class TableReader(DataSourceReader):
    """Reads files that are chosen once."""

    def __init__(self, options: TableOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[TableTask]:
        return _tasks(self.options.chosen_files(), self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self.options)


class VersionReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what each version added; the offset of a stream is a version."""

    def __init__(self, options: TableOptions) -> None:
        self.options = options
        self._last: int | None = None

    @cached_property
    def _table(self) -> LakeTable:
        return self.options.open()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        return {"version": self.options.after or 0}

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's
        newest = self._table.refresh() if self._last is None else self._last
        if not isinstance(limit, ReadAllAvailable) or self._last is not None:
            newest = min(newest, start["version"] + self.options.max_versions)
        return {"version": max(newest, start["version"])}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        return {"version": self._table.refresh()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        self._last = self._table.refresh()

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[TableTask]:
        added = self.options.added(self._table, start["version"], end["version"])
        return _tasks(added, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self.options)

    def commit(self, end: Mapping[str, int]) -> None:
        """Nothing: the table's log stays as it is."""

    def stop(self) -> None:
        """Nothing is held open."""


def _schema(options: TableOptions) -> pa.Schema:
    if options.form == "narrow":
        return NARROW_SCHEMA
    return pa.schema([options.spec.schema.field(name) for name in options.columns])


def _tasks(paths: Sequence[str], options: TableOptions) -> list[TableTask]:
    return [TableTask(share) for share in shares(paths, options.tasks)]


def _read(partition: InputPartition, options: TableOptions) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, TableTask):  # of nothing to read, Spark makes a part of its own
        return
    files = TableFiles(options.store, options.spec)
    if options.form == "narrow":
        yield from _narrow(files, partition.paths, options)
        return
    schema = _schema(options)
    for batch in files.read(partition.paths, options.columns, options.row_filter()):
        if batch.num_rows:
            yield pa.record_batch(batch.columns, schema=schema)


def _narrow(
    files: TableFiles, paths: Sequence[str], options: TableOptions
) -> Iterator[pa.RecordBatch]:
    narrower = Narrower()
    columns = [name for name in options.spec.schema.names if name not in options.spec.partitions]
    wanted = options.row_filter()
    for batch in files.read(paths, columns, wanted, encoded=True, batch_rows=NARROW_ROWS):
        rows = pa.Table.from_batches([batch])
        nowhere = [pa.nulls(rows.num_rows, pa.int32()), pa.nulls(rows.num_rows, pa.int64())]
        yield from narrower.batches(rows, nowhere[0], nowhere[1], nowhere[0])
