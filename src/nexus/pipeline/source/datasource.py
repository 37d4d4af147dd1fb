"""The PySpark data source "nexus": `spark.readStream.format("nexus")` and `spark.read`.

The stream's reader lives in one process on the driver, which plans batches and reads none of
their data; `read` runs in the workers. Offsets are Spark's to keep: nothing is lost or repeated
by reading again from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
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
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from nexus.pipeline.source.backlog import from_json, to_json
from nexus.pipeline.source.fetching import fetch
from nexus.pipeline.source.forms import SCHEMAS
from nexus.pipeline.source.options import BadOption, Form, SourceOptions, parse_options
from nexus.pipeline.source.planner import Planner
from nexus.pipeline.source.planning import Range


@dataclass(frozen=True)
class Task(InputPartition):
    """What one task reads, and what it says is gone."""

    ranges: tuple[Range, ...]
    gone: tuple[Range, ...] = ()


class NexusSource(DataSource):
    """Readings from a queue; `options` says what it can be told."""

    @classmethod
    def name(cls) -> str:
        return "nexus"

    def schema(self) -> StructType:
        return spark_schema(parse_options(self.options).form)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._checked(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        options = self._checked(schema)
        if "end" in self.options:
            raise BadOption("option end: a stream has no end; spark.read has one")
        return StreamReader(options)

    def _checked(self, schema: StructType) -> SourceOptions:
        options = parse_options(self.options)
        if schema != spark_schema(options.form):
            raise BadOption("the schema is not to be chosen: leave .schema(...) out")
        return options


def spark_schema(form: Form) -> StructType:
    """The columns of a form as Spark names their types."""
    schema: StructType = from_arrow_schema(SCHEMAS[form])
    return schema


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans a stream's batches; opens the queue when it is first asked something."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self.options)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        return to_json(self._planner.start())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        return ReadMaxRows(self.options.limits.readings)

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's
        readings = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        is_all = isinstance(limit, ReadAllAvailable)
        return to_json(self._planner.next_end(from_json(start), readings, unlimited=is_all))

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        return to_json(self._planner.newest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        self._planner.stop_at_newest()

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[Task]:
        return _tasks(*self._planner.tasks(from_json(start), from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self.options)

    def commit(self, end: Mapping[str, int]) -> None:
        """Nothing: how far a batch has come is known where it is stored."""

    def stop(self) -> None:
        if "_planner" in self.__dict__:
            self._planner.close()


class BatchReader(DataSourceReader):
    """Reads what lies between two places, which are found once."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[Task]:
        planner = Planner(self.options)
        try:
            start = planner.start()
            return _tasks(*planner.tasks(start, planner.end(start)))
        finally:
            planner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self.options)


def _tasks(parts: Sequence[tuple[Range, ...]], gone: tuple[Range, ...]) -> list[Task]:
    """A task for each part; the first also says what is gone."""
    if not parts:
        return [Task((), gone)] if gone else []
    return [Task(part, () if number else gone) for number, part in enumerate(parts)]


def _read(partition: InputPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, Task):  # of nothing to read, Spark makes a part of its own
        return iter(())
    return fetch(partition.ranges, partition.gone, options)
