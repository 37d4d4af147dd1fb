"""Readings as the live stream holds them: few columns, text as JSON writes it.

Text is quoted once, in the dictionaries, and stays so: what selects compares quoted text with
quoted text, and what renders has only to join.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.catalogue import meaning_of
from nexus.telemetry.checks import refusals
from nexus.telemetry.combine import combine
from nexus.telemetry.normalise import bounds_reason, normalise
from nexus.telemetry.reading import ENCODED_TEXT, encoded
from nexus.telemetry.scalars import EMPTY, scalar, whole

TEXT_MAX: Final = 1024  # bytes; a reading with a longer name is not shown
TEXT: Final = (
    "metric",
    "unit",
    "uuid",
    "gpu",
    "hostname",
    "mig",
    "instance",
    "namespace",
    "pod",
    "container",
    "cluster",
)
LIVE_SCHEMA: Final = pa.schema(
    [
        pa.field("timestamp", pa.int64()),  # milliseconds
        pa.field("value", pa.float64()),
        *(pa.field(name, ENCODED_TEXT) for name in (*TEXT, "model")),
    ]
)
_ODD: Final = r'["\\\x00-\x1f\x7f]'
_QUOTE: Final = scalar('"', pa.string())


def live_columns(source: pa.Table, now_us: int) -> pa.Table:
    """The readings that the tables would take too (LIVE_SCHEMA), in their order."""
    readings = normalise(source)
    refused = pc.or_(pc.is_valid(refusals(source, now_us)), pc.is_valid(bounds_reason(readings)))
    if pc.any(refused).as_py():
        readings = readings.filter(pc.invert(refused))
    return _named(readings)


def quoted(texts: pa.Array) -> pa.Array:
    """Each text as a JSON string."""
    odd = pc.match_substring_regex(texts, _ODD)
    plain = pc.binary_join_element_wise(_QUOTE, texts, _QUOTE, EMPTY)
    if not pc.any(odd).as_py():
        return plain
    escaped = [json.dumps(text, ensure_ascii=False) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(plain, odd, pa.array(escaped, pa.string()))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Several as one, each text column with one dictionary."""
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _named(readings: pa.Table) -> pa.Table:
    kinds = combine([readings.column("source_metric"), readings.column("unit")])
    texts = {name: encoded(readings.column(name)) for name in (*TEXT, "model")}
    texts["unit"] = kinds.spread([meaning_of(name, unit).unit for name, unit in kinds.rows()])
    texts = {name: _quoted_column(text) for name, text in texts.items()}
    numbers = {
        "timestamp": _milliseconds(readings.column("timestamp")),
        "value": readings.column("value"),
    }
    columns = {**numbers, **texts}
    table = pa.table([columns[name] for name in LIVE_SCHEMA.names], schema=LIVE_SCHEMA)
    short = _is_short(list(texts.values()))
    return _copied(table if short is None else table.filter(short))


def _copied(table: pa.Table) -> pa.Table:
    """The same in memory of its own: the message that it came from can go."""
    return pa.concat_tables([table, table.slice(0, 0)]).combine_chunks()


def _milliseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.divide(times.cast(pa.int64()), whole(1000))


def _quoted_column(text: pa.DictionaryArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(text.indices, quoted(text.dictionary))


def _is_short(columns: Sequence[pa.DictionaryArray]) -> pa.Array | None:
    """Which readings have no text that is too long; None if that is all of them."""
    kept = None
    for column in columns:
        long = pc.greater(pc.binary_length(column.dictionary), scalar(TEXT_MAX, pa.int32()))
        if pc.any(long).as_py():
            fits = pc.invert(long).take(column.indices)
            kept = fits if kept is None else pc.and_(kept, fits)
    return kept
