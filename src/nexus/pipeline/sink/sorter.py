"""Sorts a task's rows by what they are: contexts are learned, copies left out, the rest handed on.

Rows come in order (see `order`). What a kind of store does with readings, and with what was
refused, is its own.
"""

import time
from abc import ABC, abstractmethod
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.narrow import CONTEXT, READING, Widener
from nexus.pipeline.order import IDENTITY
from nexus.pipeline.sink.refused import quarantine_rows
from nexus.telemetry.scalars import scalar

CHUNK_ROWS: Final = 512 * 1024  # a row group; memory is bounded by this, not by the batch


class Sorter(ABC):
    """Takes the rows of one task, some at a time."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._refused_us = time.time_ns() // 1000
        self.widener = Widener()
        self._held: list[pa.RecordBatch] = []
        self._held_rows = self.copies = 0
        self._last: dict[str, int] = {}  # the identity of the last good reading

    @abstractmethod
    def _take(self, rows: pa.Table) -> None:
        """Good readings in the narrow form, each once."""

    @abstractmethod
    def _refuse(self, made: pa.Table) -> None:
        """Rows of `quarantine`, less their day."""

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._held_rows += batch.num_rows
        if self._held_rows >= CHUNK_ROWS:
            self.flush()

    def flush(self) -> None:
        """Do with what was added so far what has to be done with it."""
        if not self._held:
            return
        rows = pa.Table.from_batches(self._held)
        self._held, self._held_rows = [], 0
        rows = self._distinct(self._good(rows))
        self._take(rows)

    def refuse(self, refused: pa.Table) -> None:
        """Put rows aside that say why they are refused."""
        self._refuse(quarantine_rows(refused, self.widener, self._origin, self._refused_us))

    def _good(self, rows: pa.Table) -> pa.Table:
        """Learn contexts, put what was refused aside, and give the rest."""
        kind, refusal = rows.column("kind"), rows.column("refusal")
        is_reading = pc.equal(kind, scalar(READING, pa.int8()))
        if pc.all(is_reading).as_py() and refusal.null_count == len(refusal):
            return rows
        self.widener.learn(rows.filter(pc.equal(kind, scalar(CONTEXT, pa.int8()))))
        is_refused = pc.is_valid(refusal)
        refused = rows.filter(is_refused)
        if refused.num_rows:
            self.refuse(refused)
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
        self.copies += copies
        return rows.filter(pa.array(~is_copy)) if copies else rows


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return numbers
