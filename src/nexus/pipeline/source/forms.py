"""The two forms in which the data source hands readings to Spark, exactly as their schemas say.

`readings` is for everyone: a row is a canonical reading with its place in the queue, or a message
that gave none, with `reason` and `raw`. `narrow` is the collector's own (`pipeline.narrow`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from nexus.pipeline.narrow import NARROW_SCHEMA, Narrower, unreadable
from nexus.pipeline.source.options import Form
from nexus.telemetry.reading import READING_SCHEMA, in_one_piece, plain
from nexus.telemetry.scalars import scalar

_ROWS_MAX: Final = 16_384  # text takes room: a row is half a kilobyte

# Spark takes every column for one that may be null, and compares.
READINGS_SCHEMA: Final = pa.schema(
    [
        *(field.with_nullable(True) for field in READING_SCHEMA),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("row", pa.int32()),  # of the reading in its message
        pa.field("content_type", pa.string()),
        pa.field("reason", pa.string()),  # why a message gave no reading
        pa.field("raw", pa.binary()),  # that message
    ]
)
SCHEMAS: Final = {"readings": READINGS_SCHEMA, "narrow": NARROW_SCHEMA}


@dataclass(frozen=True, slots=True)
class Placed:
    """Canonical readings, and where each stands in the queue."""

    table: pa.Table
    partition: pa.Array
    offset: pa.Array
    row: pa.Array
    content_type: pa.DictionaryArray  # null where a message does not say


@dataclass(frozen=True, slots=True)
class Refused:
    """Something in the queue that gave no reading: a message, or a gap."""

    partition: int
    offset: int
    reason: str
    raw: bytes = b""
    content_type: str | None = None


class Shape(Protocol):
    """Makes batches of one form, for one task."""

    def readings(self, placed: Placed) -> Iterator[pa.RecordBatch]: ...
    def refused(self, refused: Sequence[Refused]) -> pa.RecordBatch: ...


def shape(form: Form, topic: str) -> Shape:
    """The form of that name."""
    return NarrowShape() if form == "narrow" else ReadingsShape(topic)


class NarrowShape:
    """Numbers, and the text that they share once a task."""

    def __init__(self) -> None:
        self._narrower = Narrower()

    def readings(self, placed: Placed) -> Iterator[pa.RecordBatch]:
        yield from self._narrower.batches(placed.table, placed.partition, placed.offset, placed.row)

    def refused(self, refused: Sequence[Refused]) -> pa.RecordBatch:
        return unreadable(
            [r.partition for r in refused],
            [r.offset for r in refused],
            [r.reason for r in refused],
            [r.raw for r in refused],
        )


class ReadingsShape:
    """Every column of a reading, and its place."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def readings(self, placed: Placed) -> Iterator[pa.RecordBatch]:
        for start in range(0, placed.table.num_rows, _ROWS_MAX):
            table = plain(placed.table.slice(start, _ROWS_MAX))
            cut = slice(start, start + _ROWS_MAX)
            yield self._batch(
                table.num_rows,
                {
                    **{n: in_one_piece(table.column(n)) for n in READING_SCHEMA.names},
                    "partition": placed.partition[cut],
                    "offset": placed.offset[cut],
                    "row": placed.row[cut],
                    "content_type": placed.content_type[cut].cast(pa.string()),
                },
            )

    def refused(self, refused: Sequence[Refused]) -> pa.RecordBatch:
        texts = [f.name for f in READING_SCHEMA if pa.types.is_string(f.type)]
        return self._batch(
            len(refused),
            {
                **{name: pa.array([""] * len(refused), pa.string()) for name in texts},
                "partition": pa.array([r.partition for r in refused], pa.int32()),
                "offset": pa.array([r.offset for r in refused], pa.int64()),
                "row": pa.array([0] * len(refused), pa.int32()),
                "content_type": pa.array([r.content_type for r in refused], pa.string()),
                "reason": pa.array([r.reason for r in refused], pa.string()),
                "raw": pa.array([r.raw for r in refused], pa.binary()),
            },
        )

    def _batch(self, count: int, columns: dict[str, Any]) -> pa.RecordBatch:
        topic = pa.repeat(scalar(self._topic, pa.string()), count)
        made = {"topic": topic, **columns}
        arrays = [made.get(f.name, pa.nulls(count, f.type)) for f in READINGS_SCHEMA]
        return pa.record_batch(arrays, schema=READINGS_SCHEMA)
