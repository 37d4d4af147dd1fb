"""A table as the JSON objects of its rows, without an object in between.

A value is written once for each time it is different: runs of text columns (what names a series)
once for each combination, moments once each, numbers in one call. Rows are joined from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from nexus.gateway.times import rfc3339
from nexus.telemetry.combine import combine

Fragments = Iterable[bytes]
FEW_ROWS: Final = 100  # of which it takes longer to find the equal ones than to write them all


def json_rows(table: pa.Table) -> bytes:
    """`{…},{…}`: every row as an object, in order; nothing if there are none."""
    if not table.num_rows:
        return b""
    parts: list[Fragments] = []
    opening = b"{"
    for names in _runs(table.schema):
        parts += [repeat(opening), _fragments(table, names)]
        opening = b","
    return b",".join(map(b"".join, zip(*parts, repeat(b"}"), strict=False)))


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values for JSON; moments as RFC 3339."""
    if pa.types.is_timestamp(column.type):
        distinct, rows = np.unique(_micros(column), return_inverse=True)
        return _spread([rfc3339(int(at)) for at in distinct], rows, column)
    values: list[Any] = column.to_pylist()
    return values


def _runs(schema: pa.Schema) -> Iterator[list[str]]:
    """Neighbouring text columns together, every other one alone."""
    run: list[str] = []
    for field in schema:
        if pa.types.is_string(field.type) and not field.nullable:
            run.append(field.name)
            continue
        if run:
            yield run
        run = []
        yield [field.name]
    if run:
        yield run


def _fragments(table: pa.Table, names: Sequence[str]) -> Fragments:
    """For each row, `"name":value` of a column, or of several with commas between."""
    field = table.schema.field(names[0])
    if pa.types.is_string(field.type) and not field.nullable:
        return _texts(table, names)
    key = orjson.dumps(field.name) + b":"
    column = table.column(field.name)
    if pa.types.is_timestamp(field.type):
        distinct, rows = np.unique(_micros(column), return_inverse=True)
        moments = [b'%b"%b"' % (key, rfc3339(int(at)).encode()) for at in distinct]
        return _spread(moments, rows, column, key + b"null")
    values = column.to_pylist()
    if pa.types.is_floating(field.type) or pa.types.is_integer(field.type):
        # No number has a comma in it.
        return map(key.__add__, orjson.dumps(values)[1:-1].split(b","))
    return [key + orjson.dumps(value) for value in values]


def _texts(table: pa.Table, names: Sequence[str]) -> list[bytes]:
    columns = [table.column(name) for name in names]
    if table.num_rows <= FEW_ROWS:
        return _written(names, columns)
    combined = combine(columns)
    written = _written(names, combined.columns)
    spread: list[bytes] = np.array(written, dtype=object)[combined.codes.to_numpy()].tolist()
    return spread


def _written(names: Sequence[str], columns: Sequence[pa.Array | pa.ChunkedArray]) -> list[bytes]:
    """For each row, what its texts say; a text of a column is written once."""
    parts = []
    for name, column in zip(names, columns, strict=True):
        key = orjson.dumps(name) + b":"
        texts = column.to_pylist()
        written = {text: key + orjson.dumps(text) for text in set(texts)}
        parts.append([written[text] for text in texts])
    return list(map(b",".join, zip(*parts, strict=True)))


def _micros(column: pa.ChunkedArray) -> Any:
    return column.cast(pa.int64()).fill_null(0).to_numpy()


def _spread(
    distinct: list[Any], rows: Any, column: pa.ChunkedArray, nothing: Any = None
) -> list[Any]:
    """One value for each row; `nothing` where the column has none."""
    values = np.array(distinct, dtype=object)[rows]
    if column.null_count:
        values[column.is_null().to_numpy()] = nothing
    spread: list[Any] = values.tolist()
    return spread
