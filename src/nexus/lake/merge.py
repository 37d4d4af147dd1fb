"""Many sorted files as one: rows in the order of GPU and time, with little in memory.

Every row comes out exactly once whatever the files hold; the order is right if each file was in
order, as the sink writes them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nexus.lake.datafile import time_column
from nexus.telemetry.reading import encoded
from nexus.telemetry.tables import TableSpec

# Rows that wait for others at most: files that are not in order would let it grow.
WAITING_ROWS: Final = 2_000_000
PIECE_ROWS: Final = 131_072
_PREFIXES: Final = ("GPU-", "MIG-")

Place = tuple[bytes, int]  # a GPU and a time: where a row stands
Numbers = npt.NDArray[np.int64]


def merged(
    spec: TableSpec, inputs: Sequence[Iterable[pa.RecordBatch]], waiting_rows: int = WAITING_ROWS
) -> Iterator[pa.Table]:
    """The rows of all inputs (text encoded), in order if each of them is."""
    runs = [_Run(spec, iter(batches)) for batches in inputs]
    while waiting := [run for run in runs if run.fill()]:
        ends = [run.last for run in waiting if not run.ended]
        if not ends or sum(run.rows.num_rows for run in waiting) > waiting_rows:
            parts = [run.take_all() for run in waiting]
        else:
            parts = [run.take_upto(min(ends)) for run in waiting]
        rows = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
        del parts
        yield from in_order(spec, rows)


def in_order(spec: TableSpec, rows: pa.Table) -> Iterator[pa.Table]:
    """Rows sorted by GPU and time, in pieces; rows of one place keep their order."""
    places = _Places(spec, rows)
    order = pa.array(np.lexsort((places.times, places.ranks)))
    for start in range(0, len(order), PIECE_ROWS):
        yield rows.take(order.slice(start, PIECE_ROWS))


class _Places:
    """Where rows stand, as numbers: the GPU's rank among those here, and the time."""

    def __init__(self, spec: TableSpec, rows: pa.Table) -> None:
        moment = time_column(spec)
        self.times = _numbers(rows, moment) if moment else np.zeros(rows.num_rows, np.int64)
        self.names = [b""]
        self.ranks = np.zeros(rows.num_rows, np.int64)
        if "uuid" in rows.column_names:
            codes = encoded(rows.column("uuid"))
            names = [gpu_order(uuid) for uuid in codes.dictionary.to_pylist()]
            self.names = sorted(set(names))
            rank = {name: number for number, name in enumerate(self.names)}
            ranks = np.array([rank[name] for name in names], np.int64)
            self.ranks = ranks[codes.indices.to_numpy()]

    def last(self) -> Place:
        """The greatest place of all."""
        rank = int(self.ranks.max())
        return self.names[rank], int(self.times[self.ranks == rank].max())

    def upto(self, place: Place) -> npt.NDArray[np.bool_]:
        """Which rows stand at this place or before it."""
        name, time = place
        rank = bisect_left(self.names, name)
        before: npt.NDArray[np.bool_] = self.ranks < rank
        if rank < len(self.names) and self.names[rank] == name:
            before |= (self.ranks == rank) & (self.times <= time)
        return before


class _Run:
    """One input: what was read of it and waits for its turn."""

    def __init__(self, spec: TableSpec, batches: Iterator[pa.RecordBatch]) -> None:
        self._spec = spec
        self._batches = batches
        self._next = _next(batches)
        self.rows: pa.Table = pa.table({})

    @property
    def ended(self) -> bool:
        """Whether nothing comes after what waits."""
        return self._next is None

    def fill(self) -> bool:
        """Read on if nothing waits; whether something does now."""
        if not self.rows.num_rows and self._next is not None:
            self.rows = pa.Table.from_batches([self._next])
            self._places = _Places(self._spec, self.rows)
            self.last = self._places.last()
            self._next = _next(self._batches)
        return bool(self.rows.num_rows)

    def take_all(self) -> pa.Table:
        taken, self.rows = self.rows, self.rows.slice(0, 0)
        return taken

    def take_upto(self, place: Place) -> pa.Table:
        """The rows that stand at a place or before it; the others wait on."""
        if self.last <= place:
            return self.take_all()
        is_taken = self._places.upto(place)
        taken = self.rows.filter(pa.array(is_taken))
        if taken.num_rows:
            self.rows = self.rows.filter(pa.array(~is_taken))
            self._places = _Places(self._spec, self.rows)
        return taken


def gpu_order(uuid: str) -> bytes:
    """What GPUs are sorted by: as the sink sorts them, by what differs between their uuids."""
    name = uuid.partition("-")[2] if uuid[:4] in _PREFIXES else uuid
    return name.encode()


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in batches if batch.num_rows), None)


def _numbers(rows: pa.Table, column: str) -> Numbers:
    numbers: Numbers = rows.column(column).cast(pa.int64()).to_numpy()
    return numbers
