"""Readings in memory with their texts as codes: there may be millions of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from nexus.store.etcd.rows import readings_from
from nexus.telemetry.reading import ENCODED_TEXT, READING_SCHEMA, encoded

_SHORT_TEXT: Final = pa.dictionary(pa.int16(), pa.string())
_SHORT_MOST: Final = 1 << 15
_LONG: Final = pa.schema(
    [each.with_type(ENCODED_TEXT) if each.type == pa.string() else each for each in READING_SCHEMA]
)


def decoded(values: Sequence[bytes]) -> pa.Table:
    """The readings that values hold, in their order."""
    readings = readings_from(values)
    columns = [_coded(readings.column(each.name)) for each in READING_SCHEMA]
    return pa.table(columns, names=READING_SCHEMA.names)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """All of it as one table, for DuckDB."""
    found = [table for table in tables if table.num_rows] or [decoded([])]
    if any(table.schema != found[0].schema for table in found):
        found = [table.cast(_LONG) for table in found]
    return pa.concat_tables(found)


def _coded(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if not pa.types.is_string(column.type):
        return column
    whole = encoded(column)
    return whole.cast(_SHORT_TEXT) if len(whole.dictionary) < _SHORT_MOST else whole
