"""What a task does with its share of a batch for a store in InfluxDB: points, in columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.frontier import Frontier, ends_of
from nexus.pipeline.narrow import TEXT_COLUMNS
from nexus.pipeline.sink.sorter import Sorter
from nexus.store.influx.journal import Came
from nexus.store.influx.talking import Influx
from nexus.store.influx.url import InfluxUrl
from nexus.store.influx.writing import Contexts, Writer, merged
from nexus.telemetry.reading import in_one_piece

WROTE_DDL: Final = "readings long, copies long, refused long, came string, ends binary"
LATE_ROWS: Final = 50_000  # that are looked for at once
_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in ("readings", "copies", "refused")),
        pa.field("came", pa.string()),
        pa.field("ends", pa.binary()),
    ]
)

# A worker of Spark serves many tasks: what it told a store is there for as long as that is.
_clients: dict[InfluxUrl, Influx] = {}
_contexts: dict[str, Contexts] = {}


@dataclass(frozen=True, slots=True)
class Job:
    """What a task must know."""

    store: InfluxUrl
    identity: str  # of the store
    origin: str
    refused_us: int  # the same when the batch is played again


@dataclass(frozen=True, slots=True)
class Wrote:
    """What a task, or a batch, came to."""

    readings: int
    copies: int
    refused: int
    came: str  # as JSON
    ends: bytes = b""  # how far series go, see `Frontier`

    def pieces(self) -> list[Came]:
        return [Came(*each) for each in json.loads(self.came)]


class InfluxWriter(Sorter):
    """Stores the rows of one task; the frontier says what may be stored already.

    A point that comes again takes the place of the one before, and the first is to be kept: so
    what is not newer than its series is looked for.
    """

    def __init__(self, job: Job, writer: Writer, frontier: Frontier | None = None) -> None:
        super().__init__(job.origin)
        self._refused_us = job.refused_us
        self._writer = writer
        self._frontier = frontier or Frontier()
        self._ends: list[pa.Table] = []

    def finish(self) -> Wrote:
        self.flush()
        done = self._writer
        ends = Frontier().advanced(self._ends).to_bytes() if self._ends else b""
        return Wrote(done.readings, self.copies, done.refused, json.dumps(done.came), ends)

    def _take(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        late = self._frontier.is_late(rows.column("series_a"), rows.column("timestamp"))
        if pc.any(late).as_py():
            found = self._not_stored(rows.filter(late))
            rows = pa.concat_tables([rows.filter(pc.invert(late)), *found])
        self._writer.add(rows, lambda hashes: self._told(rows, hashes))
        self._ends.append(ends_of(rows))

    def _not_stored(self, late: pa.Table) -> Iterator[pa.Table]:
        """Of readings that may be there, those that are not."""
        for start in range(0, late.num_rows, LATE_ROWS):
            some = late.slice(start, LATE_ROWS)
            is_stored = self._writer.is_stored(some, self.widener.readings(some).column("uuid"))
            new = some.filter(pc.invert(is_stored))
            self.copies += some.num_rows - new.num_rows
            yield new

    def _refuse(self, made: pa.Table) -> None:
        self._writer.refuse(made)

    def _told(self, rows: pa.Table, hashes: pa.Array) -> pa.Table:
        first = rows.take(pc.index_in(hashes, value_set=in_one_piece(rows.column("context"))))
        texts = self.widener.readings(first).select(list(TEXT_COLUMNS))
        return texts.append_column("hash", hashes)


def write_rows(
    job: Job, frontier: Callable[[], Frontier]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs in each writing task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = Writer(_client(job.store), _told(job.identity))
        writer = InfluxWriter(job, task, frontier())
        for batch in batches:
            writer.add(batch)
        done = writer.finish()
        said = {name: getattr(done, name) for name in _SCHEMA.names}
        yield pa.RecordBatch.from_pylist([said], schema=_SCHEMA)

    return run


def came_of_all(wrote: Iterable[Wrote]) -> list[Came]:
    """What came when, in all tasks of a batch."""
    return merged(piece for each in wrote for piece in each.pieces())


def _client(store: InfluxUrl) -> Influx:
    if store not in _clients:
        _clients[store] = Influx(store)
    return _clients[store]


def _told(identity: str) -> Contexts:
    if identity not in _contexts:
        _contexts.clear()
        _contexts[identity] = Contexts()
    return _contexts[identity]
