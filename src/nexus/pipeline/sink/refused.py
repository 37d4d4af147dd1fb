"""What was refused, as rows of `quarantine`: why, from where, and the thing itself.

A reading is kept as the JSON object of what its source said; a message as the bytes that came.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.narrow import UNREADABLE, Widener
from nexus.pipeline.order import REFUSAL
from nexus.telemetry.reading import TIMESTAMP
from nexus.telemetry.scalars import EMPTY, scalar
from nexus.telemetry.tables import TABLES

_SCHEMA: Final = pa.schema([f for f in TABLES["quarantine"].schema if f.name != "day"])


def quarantine_rows(refused: pa.Table, widener: Widener, origin: str, now_us: int) -> pa.Table:
    """Rows with a reason, as the table of quarantine has them (less its day)."""
    is_message = pc.equal(refused.column("kind"), scalar(UNREADABLE, pa.int8()))
    messages, readings = refused.filter(is_message), refused.filter(pc.invert(is_message))
    parts = []
    if messages.num_rows:
        parts.append(_rows(messages, "decode", None, origin, now_us))
    if readings.num_rows:
        parts.append(_rows(readings, "validate", widener, origin, now_us))
    return pa.concat_tables(parts)


def _rows(
    rows: pa.Table, stage: str, widener: Widener | None, origin: str, now_us: int
) -> pa.Table:
    count = rows.num_rows
    *place, reason = _parts(rows.column("refusal"))
    raw = rows.column("text") if widener is None else _as_json(rows, widener)
    columns = {
        "refused": pa.repeat(scalar(now_us, pa.int64()), count).cast(TIMESTAMP),
        "reason": reason,
        "stage": _constant(stage, count),
        "topic": _constant(origin, count),
        **{name: part.cast(pa.int64()) for name, part in zip(REFUSAL, place, strict=False)},
        "content_type": _constant("" if widener is None else "application/json", count),
        "source": _constant("", count),
        "raw": pc.fill_null(raw, scalar(b"", pa.binary())),
    }
    return pa.table(columns).select(_SCHEMA.names).cast(_SCHEMA)


def _as_json(rows: pa.Table, widener: Widener) -> pa.Array:
    """`{"timestamp":…,"ingested":…,"source_value":…,` and what the context says."""
    contexts = widener.objects(rows)
    rest = pc.utf8_slice_codeunits(contexts.dictionary, 1)
    value = pc.binary_join_element_wise(
        scalar('{"timestamp":"', pa.string()),
        _moment(rows.column("timestamp")),
        scalar('","ingested":"', pa.string()),
        _moment(rows.column("ingested")),
        scalar('","source_value":"', pa.string()),
        pc.fill_null(rows.column("source_value").combine_chunks().cast(pa.string()), EMPTY),
        scalar('",', pa.string()),
        rest.take(contexts.indices),
        EMPTY,
    )
    return value.cast(pa.binary())


def _parts(refusal: pa.ChunkedArray) -> list[pa.Array]:
    """What `order` put into one text."""
    last = len(REFUSAL) - 1
    parts = pc.split_pattern(refusal.combine_chunks(), " ", max_splits=last)
    return [pc.list_element(parts, n) for n in range(last + 1)]


def _moment(column: pa.ChunkedArray) -> pa.Array:
    text = column.cast(pa.timestamp("us")).combine_chunks().cast(pa.string())
    return pc.fill_null(text, EMPTY)


def _constant(text: str, count: int) -> pa.Array:
    return pa.repeat(scalar(text, pa.string()), count)
