"""The PySpark data source "nexus": `spark.readStream.format("nexus")` and `spark.read`.

The stream's reader lives in one process on the driver, which plans batches and reads none of
their data; `read` runs in the workers. Offsets are Spark's to keep: nothing is lost or repeated
by reading again from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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

from nexus.pipeline.source.fetching import fetch
from nexus.pipeline.source.forms import SCHEMAS
from nexus.pipeline.source.kinds import Plan, Said, SourceTask, open_plan
from nexus.pipeline.source.options import BadOption, Form, SourceOptions, parse_options
from nexus.pipeline.source.planning import Range


@dataclass(frozen=True)
class Task(SourceTask):
    """What one task reads of a topic, and what it says is gone."""

    ranges: tuple[Range, ...]
    gone: tuple[Range, ...] = ()

    def read(self, options: SourceOptions) -> Iterator[pa.RecordBatch]:
        return fetch(self.ranges, self.gone, options)


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
    def _plan(self) -> Plan:
        return open_plan(self.options)

    def initialOffset(self) -> Said:  # noqa: N802 - Spark's
        return self._plan.start()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        return ReadMaxRows(self.options.limits.readings)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> Said:  # noqa: N802 - Spark's
        readings = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        is_all = isinstance(limit, ReadAllAvailable)
        return self._plan.next_end(start, readings, unlimited=is_all)

    def reportLatestOffset(self) -> Said:  # noqa: N802 - Spark's
        return self._plan.newest()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        self._plan.stop_at_newest()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[SourceTask]:
        return self._plan.tasks(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self.options)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nothing: how far a batch has come is known where it is stored."""

    def stop(self) -> None:
        if "_plan" in self.__dict__:
            self._plan.close()


class BatchReader(DataSourceReader):
    """Reads what lies between two places, which are found once."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[SourceTask]:
        plan = open_plan(self.options)
        try:
            start = plan.start()
            return plan.tasks(start, plan.end(start))
        finally:
            plan.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self.options)


def _read(partition: InputPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, SourceTask):  # of nothing to read, Spark makes a part of its own
        return iter(())
    return partition.read(options)
