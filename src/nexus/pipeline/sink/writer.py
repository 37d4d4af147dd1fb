"""What a task does with its share of a batch: sort rows by what they are, and write files.

Rows come in order (see `order`). Good readings go to files of `readings`, those that may be stored
already to files that are looked at again, and what was refused to files of `quarantine`. No file
counts before the driver commits it.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.files import FileWriter, NewFile, TableFiles
from nexus.lake.url import StoreUrl
from nexus.pipeline.frontier import Frontier, ends_of
from nexus.pipeline.narrow import CONTEXT, READING, Widener
from nexus.pipeline.order import IDENTITY
from nexus.pipeline.sink.refused import quarantine_rows
from nexus.telemetry.scalars import scalar
from nexus.telemetry.tables import TABLES

CHUNK_ROWS: Final = 512 * 1024  # a row group; memory is bounded by this, not by the batch
READINGS, LATE, QUARANTINE = "readings", "late", "quarantine"

WRITTEN_SCHEMA: Final = pa.schema(
    [
        pa.field("role", pa.string()),
        pa.field("file", pa.string()),
        pa.field("copies", pa.int64()),
        pa.field("ends", pa.binary()),
    ]
)
WRITTEN_DDL: Final = "role string, file string, copies long, ends binary"


@dataclass(frozen=True, slots=True)
class Written:
    """What a task reports: its files by role, the copies it left out, and how far series go."""

    role: str
    file: NewFile | None
    copies: int
    ends: bytes | None


def written_of(row: Any) -> Written:
    """From the row that Spark gives to the driver."""
    file = NewFile(**json.loads(row.file)) if row.file else None
    return Written(row.role, file, row.copies, bytes(row.ends) if row.ends else None)


class BatchWriter:
    """Writes the rows of one task; the frontier says what may be stored already."""

    def __init__(self, store: StoreUrl, origin: str, frontier: Frontier) -> None:
        self._files = {name: TableFiles(store, TABLES[name]) for name in (READINGS, QUARANTINE)}
        self._origin = origin
        self._frontier = frontier
        self._refused_us = time.time_ns() // 1000
        self._widener = Widener()
        self._held: list[pa.RecordBatch] = []
        self._held_rows = self._copies = 0
        self._last: dict[str, int] = {}  # the identity of the last good reading
        self._ends: list[pa.Table] = []
        self._blocks = ExitStack()
        self._open: dict[tuple[str, str], FileWriter] = {}

    def __enter__(self) -> "BatchWriter":
        return self

    def __exit__(self, *error: Any) -> None:
        # After an error nothing is left of the files.
        self._blocks.__exit__(*error)

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._held_rows += batch.num_rows
        if self._held_rows >= CHUNK_ROWS:
            self._flush()

    def finish(self) -> Iterator[Written]:
        """Close every file and say what was written."""
        self._flush()
        self._blocks.close()
        for (role, _), writer in self._open.items():
            yield Written(role, writer.file, 0, None)
        ends = Frontier().advanced(self._ends).to_bytes() if self._ends else None
        yield Written("", None, self._copies, ends)

    def _flush(self) -> None:
        if not self._held:
            return
        rows = pa.Table.from_batches(self._held)
        self._held, self._held_rows = [], 0
        rows = self._distinct(self._good(rows))
        late = self._frontier.is_late(rows.column("series_a"), rows.column("timestamp"))
        if pc.any(late).as_py():
            self._write(LATE, rows.filter(late))
            rows = rows.filter(pc.invert(late))
        self._write(READINGS, rows)
        self._ends.append(ends_of(rows))

    def _good(self, rows: pa.Table) -> pa.Table:
        """Learn contexts, put what was refused aside, and give the rest."""
        kind, refusal = rows.column("kind"), rows.column("refusal")
        is_reading = pc.equal(kind, scalar(READING, pa.int8()))
        if pc.all(is_reading).as_py() and refusal.null_count == len(refusal):
            return rows
        self._widener.learn(rows.filter(pc.equal(kind, scalar(CONTEXT, pa.int8()))))
        is_refused = pc.is_valid(refusal)
        refused = rows.filter(is_refused)
        if refused.num_rows:
            made = quarantine_rows(refused, self._widener, self._origin, self._refused_us)
            self._by_day(QUARANTINE, QUARANTINE, made, made.column("refused"))
        return rows.filter(pc.and_not(is_reading, is_refused))

    def _distinct(self, rows: pa.Table) -> pa.Table:
        """Leave out copies, which stand next to the reading that is kept, and count them."""
        if not rows.num_rows:
            return rows
        is_copy = np.ones(rows.num_rows, np.bool_)
        for name in IDENTITY:
            numbers = _numbers(rows.column(name))
            is_copy[1:] &= numbers[1:] == numbers[:-1]
            is_copy[0] &= numbers[0] == self._last.get(name)
            self._last[name] = numbers[-1]
        copies = int(is_copy.sum())
        self._copies += copies
        return rows.filter(pa.array(~is_copy)) if copies else rows

    def _write(self, role: str, rows: pa.Table) -> None:
        if rows.num_rows:
            readings = self._widener.readings(rows)
            self._by_day(role, READINGS, readings, readings.column("timestamp"))

    def _by_day(self, role: str, table: str, rows: pa.Table, moments: pa.ChunkedArray) -> None:
        days = pc.cast(moments, pa.date32())
        distinct = pc.unique(days)
        for day in distinct:
            part = rows if len(distinct) == 1 else rows.filter(pc.equal(days, day))
            self._writer(role, table, str(day)).write(part)

    def _writer(self, role: str, table: str, day: str) -> FileWriter:
        found = self._open.get((role, day))
        if found is None:
            block = self._files[table].writer({"day": day})
            found = self._open[role, day] = self._blocks.enter_context(block)
        return found


def write_rows(
    store: StoreUrl, origin: str, frontier: Callable[[], Frontier]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs in each writing task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with BatchWriter(store, origin, frontier()) as writer:
            for batch in batches:
                writer.add(batch)
            yield _report(list(writer.finish()))

    return run


def _report(found: list[Written]) -> pa.RecordBatch:
    rows = [{**asdict(w), "file": json.dumps(asdict(w.file)) if w.file else None} for w in found]
    return pa.RecordBatch.from_pylist(rows, schema=WRITTEN_SCHEMA)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return numbers
