"""What a task does with its share of a batch for a store in PostgreSQL: stage it by binary COPY."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.narrow import TEXT_COLUMNS
from nexus.pipeline.order import REFUSAL
from nexus.pipeline.sink.sorter import Sorter
from nexus.store.postgres.connecting import Connection, as_store_errors, connect, is_alive
from nexus.store.postgres.dictionary import Dictionary, fit
from nexus.store.postgres.lock import Turn
from nexus.store.postgres.url import PostgresUrl
from nexus.store.postgres.writing import Part, Stager
from nexus.telemetry.reading import in_one_piece
from nexus.telemetry.scalars import scalar

STAGED_DDL: Final = (
    "part long, readings long, latest long, refused long, days string, refused_days string,"
    " copies long"
)
NOT_TAKEN: Final = "a text has the character NUL in it, which PostgreSQL does not take"
_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in ("part", "readings", "latest", "refused")),
        *(pa.field(name, pa.string()) for name in ("days", "refused_days")),
        pa.field("copies", pa.int64()),
    ]
)

# A worker of Spark serves many tasks: what it knows of a store is good for as long as a turn.
_connections: dict[str, Connection] = {}
_dictionaries: dict[Turn, Dictionary] = {}


@dataclass(frozen=True, slots=True)
class Job:
    """What a task must know."""

    store: PostgresUrl
    turn: Turn
    origin: str


class PostgresWriter(Sorter):
    """Stages the rows of one task."""

    def __init__(self, job: Job, stager: Stager) -> None:
        super().__init__(job.origin)
        self._stager = stager

    def finish(self) -> Part:
        self.flush()
        return self._stager.finish()

    def _take(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        ids = self._stager.numbered(rows, lambda hashes: self._told(rows, hashes))
        taken = ids["id"] > 0
        if not taken.all():
            self.refuse(_refused(rows.filter(pa.array(~taken))))
            rows, ids = rows.filter(pa.array(taken)), ids[taken]
        self._stager.add(rows, ids)

    def _refuse(self, made: pa.Table) -> None:
        self._stager.refuse(made)

    def _told(self, rows: pa.Table, hashes: pa.Array) -> pa.Table:
        """The texts of contexts, and the series that they are of."""
        context = in_one_piece(rows.column("context"))
        first = rows.take(pc.index_in(hashes, value_set=context))
        texts = self.widener.readings(first).select(list(TEXT_COLUMNS))
        for name in ("series_a", "series_b"):
            texts = texts.append_column(name, first.column(name))
        return fit(texts.append_column("hash", hashes))


def stage_rows(job: Job) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs in each writing task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with as_store_errors(job.store):
            stager = Stager(_connection(job.store), job.turn.epoch, _dictionary(job.turn))
            writer = PostgresWriter(job, stager)
            for batch in batches:
                writer.add(batch)
            done = {**asdict(writer.finish()), "copies": writer.copies}
        yield pa.RecordBatch.from_pylist([done], schema=_SCHEMA)

    return run


def _refused(rows: pa.Table) -> pa.Table:
    """Rows with the reason and the place that quarantine needs."""
    *place, _ = REFUSAL
    parts = [in_one_piece(rows.column(name)).cast(pa.string()) for name in place]
    said = pc.binary_join_element_wise(
        *parts, scalar(NOT_TAKEN, pa.string()), scalar(" ", pa.string())
    )
    at = rows.schema.get_field_index("refusal")
    return rows.set_column(at, "refusal", said)


def _connection(store: PostgresUrl) -> Connection:
    known = _connections.get(store.address)
    if known is None or not is_alive(known):
        known = _connections[store.address] = connect(store, "collector task")
    return known


def _dictionary(turn: Turn) -> Dictionary:
    if turn not in _dictionaries:
        _dictionaries.clear()
        _dictionaries[turn] = Dictionary()
    return _dictionaries[turn]
