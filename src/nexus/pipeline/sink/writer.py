"""What a task does with its share of a batch: sort rows by what they are, and write files.

Rows come in order (see `order`). Good readings go to files of `readings`, those that may be stored
already to files that are looked at again, and what was refused to files of `quarantine`. No file
counts before the driver commits it.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.files import FileWriter, NewFile, TableFiles
from nexus.lake.url import StoreUrl
from nexus.pipeline.frontier import Frontier, ends_of
from nexus.pipeline.sink.sorter import Sorter
from nexus.telemetry.tables import TABLES

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


class BatchWriter(Sorter):
    """Writes the rows of one task; the frontier says what may be stored already."""

    def __init__(self, store: StoreUrl, origin: str, frontier: Frontier) -> None:
        self._files = {name: TableFiles(store, TABLES[name]) for name in (READINGS, QUARANTINE)}
        super().__init__(origin)
        self._frontier = frontier
        self._ends: list[pa.Table] = []
        self._blocks = ExitStack()
        self._open: dict[tuple[str, str], FileWriter] = {}

    def __enter__(self) -> "BatchWriter":
        return self

    def __exit__(self, *error: Any) -> None:
        # After an error nothing is left of the files.
        self._blocks.__exit__(*error)

    def finish(self) -> Iterator[Written]:
        """Close every file and say what was written."""
        self.flush()
        self._blocks.close()
        for (role, _), writer in self._open.items():
            yield Written(role, writer.file, 0, None)
        ends = Frontier().advanced(self._ends).to_bytes() if self._ends else None
        yield Written("", None, self.copies, ends)

    def _take(self, rows: pa.Table) -> None:
        late = self._frontier.is_late(rows.column("series_a"), rows.column("timestamp"))
        if pc.any(late).as_py():
            self._write(LATE, rows.filter(late))
            rows = rows.filter(pc.invert(late))
        self._write(READINGS, rows)
        self._ends.append(ends_of(rows))

    def _refuse(self, made: pa.Table) -> None:
        self._by_day(QUARANTINE, QUARANTINE, made, made.column("refused"))

    def _write(self, role: str, rows: pa.Table) -> None:
        if rows.num_rows:
            readings = self.widener.readings(rows)
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
