"""Reads files of a table as numbered rows, on the executors, by what a job asks for.

A scan is planned on the driver and sent to the tasks whole. Files are dealt out in order of
time, so that the rows of a window meet in one task where they can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from nexus.lake.datafile import DataFile, time_column
from nexus.lake.files import TableFiles
from nexus.pipeline.derive.numbered import Numberer, numbered_schema
from nexus.pipeline.derive.parts import Reduce
from nexus.pipeline.derive.windows import Span
from nexus.telemetry.reading import TIMESTAMP
from nexus.telemetry.scalars import scalar

GATHERED_ROWS: Final = 524_288  # contexts are told apart once for so many rows
TASK_ROWS: Final = 1_000_000
_SPANS_AS_FILTER: Final = 8


@dataclass(frozen=True)
class Scan:
    """Rows of some files of a table: those in the spans (or outside of them), of these GPUs."""

    files: TableFiles
    text: tuple[str, ...]
    carried: tuple[str, ...]
    tasks: tuple[tuple[str, ...], ...]
    spans: tuple[Span, ...] | None = None  # None is all of time
    uuids: tuple[str, ...] | None = None  # None is all GPUs
    outside: bool = False  # all rows but those
    reduce: Reduce | None = None  # makes fewer rows of them, in a task
    reduced: pa.Schema | None = None  # what columns those have

    @property
    def schema(self) -> pa.Schema:
        columns = [self.files.spec.schema.field(name) for name in self.carried]
        return numbered_schema(columns if self.reduced is None else self.reduced)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows as a DataFrame; nothing is read yet."""
        count = max(1, len(self.tasks))
        return spark.range(0, count, 1, count).mapInArrow(self.read, from_arrow_schema(self.schema))

    def read(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What a task does: the rows of the tasks with these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                if number < len(self.tasks):
                    yield from self.task(self.tasks[number])

    def task(self, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of these files, numbered."""
        numberer = Numberer(self.text, self.schema, self.reduce)
        batches = self.files.read(
            paths,
            [*self.text, *self.carried],
            self._filter(),
            encoded=True,
            batch_rows=GATHERED_ROWS,
        )
        for table in gathered(batches, GATHERED_ROWS):
            yield from numberer.batches(self._chosen(table))

    def _filter(self) -> pc.Expression | None:
        """What files and row groups can be skipped by; exact for few spans."""
        wanted = self._in_time()
        if self.uuids is not None:
            of_gpus = pc.field("uuid").isin(list(self.uuids))
            wanted = of_gpus if wanted is None else wanted & of_gpus
        if wanted is None:
            return None
        return ~wanted if self.outside else wanted

    def _in_time(self) -> pc.Expression | None:
        if self.spans is None:
            return None
        moment = pc.field(self._moment())
        spans = self.spans
        if len(spans) > _SPANS_AS_FILTER and not self.outside:
            spans = (Span(spans[0].low, spans[-1].high),)
        parts = [(moment >= _at(s.low)) & (moment < _at(s.high)) for s in spans]
        return reduce(or_, parts)

    def _chosen(self, table: pa.Table) -> pa.Table:
        """Many spans are told apart by their numbers: as an expression they would be slow."""
        if self.spans is None or len(self.spans) <= _SPANS_AS_FILTER or self.outside:
            return table
        moments = table.column(self._moment()).cast(pa.int64()).to_numpy()
        lows = np.array([span.low for span in self.spans])
        highs = np.array([span.high for span in self.spans])
        place = np.searchsorted(lows, moments, side="right") - 1
        return table.filter(pa.array((place >= 0) & (moments < highs[place])))

    def _moment(self) -> str:
        name = time_column(self.files.spec)
        assert name is not None, f"{self.files.spec.name} has no time"
        return name


def gathered(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Small batches as tables of about so many rows."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if count:
        yield pa.Table.from_batches(held)


def dealt(files: Sequence[DataFile], tasks_min: int) -> tuple[tuple[str, ...], ...]:
    """Files for each task: neighbours in time together, rows spread evenly."""
    if not files:
        return ()
    ordered = sorted(files, key=lambda file: (file.low is not None, file.low, file.path))
    total = sum(file.rows for file in files)
    share = max(1, min(TASK_ROWS, -(-total // tasks_min)))
    tasks: list[list[str]] = [[]]
    rows = 0
    for file in ordered:
        if tasks[-1] and rows + file.rows / 2 > share:
            tasks.append([])
            rows = 0
        tasks[-1].append(file.path)
        rows += file.rows
    return tuple(tuple(task) for task in tasks)


def _at(moment: int) -> pa.Scalar:
    return scalar(moment, pa.int64()).cast(TIMESTAMP)
