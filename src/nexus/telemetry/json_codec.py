"""One reading a message, as JSON: what any client can write, and anyone can read.

Encoding writes whole columns at once. Lossless for every finite double and any text; a value
that is NaN or infinite has no JSON and raises UnencodableReading (sources refuse it earlier).
Decoding is in `json_decode`.
"""

from json.encoder import encode_basestring as _quoted
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.combine import combine
from nexus.telemetry.errors import UnencodableReading
from nexus.telemetry.json_decode import decode_json
from nexus.telemetry.json_fields import CONTEXT_FIELDS, LEADING_FIELDS, MODEL_LABEL
from nexus.telemetry.reading import SOURCE_SCHEMA, conform
from nexus.telemetry.scalars import EMPTY, scalar

__all__ = ["decode_json", "encode_json"]

_START: Final = scalar('{"timestamp":"', pa.string())
_INGESTED: Final = scalar(',"ingested":"', pa.string())
_SLICE: Final = 50_000  # rows whose text stays far below what one Arrow array can hold
_COLUMNS: Final = (*LEADING_FIELDS, *CONTEXT_FIELDS, "model", "labels")


def encode_json(table: pa.Table | pa.RecordBatch) -> list[bytes]:
    """A message for each reading, in order."""
    table = conform(table, SOURCE_SCHEMA)
    if not pc.all(pc.is_finite(table.column("source_value"))).as_py() and table.num_rows:
        raise UnencodableReading("JSON has no NaN and no infinity: a value is no number")
    slices = range(0, table.num_rows, _SLICE)
    return [line for start in slices for line in _lines(table.slice(start, _SLICE))]


def _lines(table: pa.Table) -> list[bytes]:
    series = combine([table.column(name) for name in _COLUMNS])
    made = [_around_value(dict(zip(_COLUMNS, row, strict=True))) for row in series.rows()]
    before = pa.array([head for head, _ in made], pa.string()).take(series.codes)
    after = pa.array([tail for _, tail in made], pa.string()).take(series.codes)
    text = pc.binary_join_element_wise(
        _START,
        _moments(table.column("timestamp")),
        before,
        table.column("source_value").combine_chunks().cast(pa.string()),
        _INGESTED,
        _moments(table.column("ingested")),
        after,
        EMPTY,
    )
    # A line end cannot stand inside of JSON text, so one cut gives all the messages.
    whole: bytes = text.buffers()[2].to_pybytes()
    lines = whole[: text.offset + _end_of(text)].split(b"\n")
    lines.pop()
    if len(lines) != table.num_rows:
        raise UnencodableReading("labels that are not canonical text: they have line ends")
    return lines


def _around_value(row: dict[str, str]) -> tuple[str, str]:
    """What stands between a reading's time and its value, and what comes after."""
    leading = "".join(f',"{LEADING_FIELDS[c]}":{_quoted(row[c])}' for c in LEADING_FIELDS)
    context = "".join(f',"{field}":{_quoted(row[field])}' for field in CONTEXT_FIELDS if row[field])
    model, labels = row["model"], row["labels"]
    if f'"{MODEL_LABEL}":' in labels:
        context += f',"model":{_quoted(model)}'
    elif model:
        rest = f",{labels[1:]}" if labels else "}"
        labels = f'{{"{MODEL_LABEL}":{_quoted(model)}{rest}'
    tail = f'"{context},"labels":{labels}' if labels else f'"{context}'
    return f'"{leading},"value":', f"{tail}}}\n"


def _moments(column: pa.ChunkedArray) -> pa.Array:
    """Times as RFC 3339 text; the few distinct ones are written once."""
    moments = column.combine_chunks().dictionary_encode()
    text = moments.dictionary.cast(pa.string())
    text = pc.utf8_replace_slice(text, start=10, stop=11, replacement="T")
    text = pc.replace_substring(text, ".000000Z", "Z")
    return text.take(moments.indices)


def _end_of(text: pa.Array) -> int:
    offsets = pa.Array.from_buffers(
        pa.int32(), text.offset + len(text) + 1, [None, text.buffers()[1]]
    )
    end: int = offsets[-1].as_py()
    return end
