"""What a task does with a piece of an archive: parse its rows and hand them on in narrow form.

A reading's place is its file's number, the byte where its block of rows begins, and its number
in the block from 1 on. A line that is no reading stands at its own byte with the number 0.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from nexus.pipeline.backfill.errors import ArchiveError, WrongSplit
from nexus.pipeline.backfill.plan import Piece
from nexus.pipeline.narrow import Narrower, unreadable
from nexus.telemetry.csv.forms import Form
from nexus.telemetry.csv.head import Head, Place, read_head
from nexus.telemetry.csv.reader import LONG_BLOCK_BYTES, WIDE_BLOCK_BYTES, RowReader
from nexus.telemetry.csv.rows import Rows
from nexus.telemetry.csv.text import Bytes, PlainBytes, open_text
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import TIMESTAMP, encoded
from nexus.telemetry.scalars import scalar

_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Stamp:
    """What is written on every reading: when it was taken, and whose it is if it does not say."""

    ingested_us: int
    cluster: str = ""

    def on(self, table: pa.Table) -> pa.Table:
        """Readings of a CSV with the columns that it cannot have."""
        said = encoded(table.column("cluster"))
        names = [name or self.cluster for name in said.dictionary.to_pylist()]
        cluster = pa.DictionaryArray.from_arrays(said.indices, pa.array(names, pa.string()))
        ingested = pa.repeat(scalar(self.ingested_us, pa.int64()), table.num_rows).cast(TIMESTAMP)
        at = table.schema.get_field_index("cluster")
        return table.set_column(at, "cluster", cluster).append_column("ingested", ingested)


class PieceReader:
    """Reads the pieces of one task, which tells every context once."""

    def __init__(self, stamp: Stamp, clock: Callable[[], float] = time.time) -> None:
        self._stamp = stamp
        self._clock = clock
        self._narrower = Narrower()

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """The rows of a piece in the narrow form."""
        if piece.fault:
            yield unreadable([piece.file], [0], [piece.fault], [piece.problem.encode()])
            return
        try:
            with Path(piece.path).open("rb") as file:
                head = read_head(piece.path, open_text(file.fileno()))
                if head is not None:
                    yield from self._rows(piece, file.fileno(), head)
        except OSError as error:
            raise ArchiveError(f"{piece.path} cannot be read: {error.strerror}") from None

    def _rows(self, piece: Piece, descriptor: int, head: Head) -> Iterator[pa.RecordBatch]:
        start = max(piece.start, head.rows.offset)
        reader = RowReader(
            _text(piece, descriptor, start),
            head.form,
            Place(start),
            clock=self._clock,
            block_bytes=_block_bytes(piece, start, head.form),
        )
        offset = start
        while (taken := reader.take(final=piece.last)) is not None:
            yield from self._narrow(piece, offset, reader.rows(taken))
            offset = reader.place.offset
        _check_end(piece, reader)

    def _narrow(self, piece: Piece, offset: int, rows: Rows) -> Iterator[pa.RecordBatch]:
        count = rows.table.num_rows
        if count:
            batches = self._narrower.batches(
                normalise(self._stamp.on(rows.table)),
                pa.repeat(scalar(piece.file, pa.int32()), count),
                pa.repeat(scalar(offset, pa.int64()), count),
                pa.arange(1, count + 1).cast(pa.int32()),
            )
            for batch in batches:
                yield from _slices(batch)
        if rows.refused:
            yield unreadable(
                [piece.file] * len(rows.refused),
                [offset + row.offset for row in rows.refused],
                [row.reason for row in rows.refused],
                [row.raw for row in rows.refused],
            )


def _text(piece: Piece, descriptor: int, start: int) -> Bytes:
    if piece.end is None:
        return open_text(descriptor, start)
    return PlainBytes(descriptor, start, piece.end)


def _block_bytes(piece: Piece, start: int, form: Form) -> int:
    """A small piece needs no large buffer."""
    usual = WIDE_BLOCK_BYTES if form.wide else LONG_BLOCK_BYTES
    return usual if piece.end is None else max(1, min(usual, piece.end - start + 1))


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for at in range(0, batch.num_rows, _BATCH_ROWS):
        yield batch.slice(at, _BATCH_ROWS)


def _check_end(piece: Piece, reader: RowReader) -> None:
    """A piece ends with a row, or it was cut where no row begins."""
    if piece.end is None:
        return
    if reader.place.offset + reader.pending < piece.end:
        raise ArchiveError(f"{piece.path} became shorter while it was read")
    if reader.pending:
        raise WrongSplit(piece.file, piece.path, piece.end)
