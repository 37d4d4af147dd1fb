"""Columns of Arrow to the rows of a binary COPY, and rows to columns; no Python runs for a row.

A row is the number of its fields, then each field's length and bytes; a null has the length -1.
Rows of fixed width come back as one array of records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
from psycopg import sql

from nexus.telemetry.reading import TIMESTAMP, in_one_piece
from nexus.telemetry.scalars import scalar

Records = npt.NDArray[np.void]

SINCE_2000_US: Final = 946_684_800_000_000  # PostgreSQL counts from there
_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL: Final = b"\xff\xff"
_ARRAY_HEAD: Final = 20  # dimensions, whether there are nulls, the type, how many, the first index
_ROWS: Final = 64 * 1024  # that are encoded at once: the offsets of Arrow's text have 32 bits
_NOTHING: Final = scalar(b"", pa.binary())


def encoded(table: pa.Table) -> Iterator[bytes]:
    """A table as what COPY … FROM STDIN (FORMAT binary) takes, in pieces."""
    yield _HEAD
    is_fixed = all(pa.types.is_primitive(column.type) for column in table.columns)
    for start in range(0, table.num_rows, _ROWS):
        piece = [in_one_piece(column) for column in table.slice(start, _ROWS).columns]
        yield from _fixed_rows(piece) if is_fixed else _any_rows(piece)
    yield _TAIL


def copy_in(cursor: psycopg.Cursor[Any], name: str, table: pa.Table) -> None:
    """Append a table's rows to a table of the database that has its columns."""
    columns = sql.SQL(", ").join(map(sql.Identifier, table.column_names))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)")
    with cursor.copy(statement.format(sql.Identifier(name), columns)) as copy:
        for data in encoded(table):
            copy.write(data)


def fetch_records(
    cursor: psycopg.Cursor[Any],
    query: str,
    params: Mapping[str, Any],
    fields: Sequence[tuple[str, str]],
) -> Records:
    """The rows of a query that has these fields, none of them null, in numpy's big-endian types.

    Each field comes as one array: for rows, by COPY too, Python would run once for each.
    """
    names = [f'"{name}"' for name, _ in fields]
    cursor.execute(
        f"SELECT {', '.join(f'array_agg({name})' for name in names)}"
        f" FROM ({query}) AS found ({', '.join(names)})",
        params,
        binary=True,
    )
    columns = [
        _elements(cursor.pgresult.get_value(0, place) if cursor.pgresult else None, kind)
        for place, (_, kind) in enumerate(fields)
    ]
    made = np.empty(len(columns[0]), np.dtype(list(fields)))
    for (name, _), column in zip(fields, columns, strict=True):
        made[name] = column
    return made


def record_pieces(
    cursor: psycopg.Cursor[Any],
    query: str,
    params: Mapping[str, Any],
    fields: Sequence[tuple[str, str]],
    rows: int,
) -> Iterator[Records]:
    """The same in pieces of about so many rows, by COPY: memory does not grow with the answer."""
    layout = _layout(fields)
    held: list[bytes] = []
    size, skip = 0, len(_HEAD)
    for data in _copied(cursor, query, params, "FORMAT binary"):
        held.append(data)
        size += len(data)
        if size - skip >= rows * layout.itemsize:
            whole = b"".join(held)
            end = skip + (size - skip) // layout.itemsize * layout.itemsize
            yield np.frombuffer(whole[skip:end], layout)
            held, size, skip = [whole[end:]], size - end, 0
    last = b"".join(held)[skip : -len(_TAIL)]
    if last:
        yield np.frombuffer(last, layout)


def copy_table(
    cursor: psycopg.Cursor[Any], query: str, params: Mapping[str, Any], schema: pa.Schema
) -> pa.Table:
    """The rows of a query with texts and whole numbers, none of them null, in a schema's order."""
    data = b"".join(_copied(cursor, query, params, "FORMAT csv"))
    if not data:
        return schema.empty_table()
    return pcsv.read_csv(
        pa.BufferReader(data),
        read_options=pcsv.ReadOptions(column_names=schema.names, use_threads=False),
        parse_options=pcsv.ParseOptions(newlines_in_values=True),
        convert_options=pcsv.ConvertOptions(
            column_types=schema, strings_can_be_null=False, null_values=[]
        ),
    )


def moments(micros: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """What PostgreSQL says of a time, as Arrow has it."""
    since_1970 = micros.astype(np.int64) + SINCE_2000_US
    return pa.array(since_1970, mask=missing).cast(TIMESTAMP)


def numbers(values: npt.NDArray[Any]) -> pa.Array:
    """Doubles; NaN, which no reading has, stands for null."""
    return pa.array(values.astype(np.float64), from_pandas=True)


def _layout(fields: Sequence[tuple[str, str]]) -> np.dtype[np.void]:
    """A row of a binary COPY with these fields, each of a fixed width."""
    layout: list[tuple[str, str]] = [("fields", ">i2")]
    for name, kind in fields:
        layout += [(f"length of {name}", ">i4"), (name, kind)]
    return np.dtype(layout)


def _copied(
    cursor: psycopg.Cursor[Any], query: str, params: Mapping[str, Any], form: str
) -> Iterator[bytes]:
    with cursor.copy(f"COPY ({query}) TO STDOUT ({form})", params) as copy:
        for data in copy:
            yield bytes(data)


def _elements(array: bytes | None, kind: str) -> npt.NDArray[Any]:
    """What is in an array without nulls: each element's length and bytes, after a head."""
    if array is None:  # of no rows
        return np.empty(0, kind)
    found = np.frombuffer(array, np.dtype([("length", ">i4"), ("value", kind)]), offset=_ARRAY_HEAD)
    return found["value"]


def _fixed_rows(columns: Sequence[pa.Array]) -> Iterator[bytes]:
    """Rows of numbers and times as records: those whose nulls are in the same places together."""
    values = [_numbers(column) for column in columns]
    nulls = np.zeros(len(columns[0]), np.int64)
    for place, column in enumerate(columns):
        if column.null_count:
            nulls |= column.is_null().to_numpy(zero_copy_only=False).astype(np.int64) << place
    for kind in np.unique(nulls):
        chosen = slice(None) if not nulls.any() else nulls == kind
        missing = [bool(kind >> place & 1) for place in range(len(columns))]
        yield _records([each[chosen] for each in values], missing)


def _records(columns: Sequence[npt.NDArray[Any]], missing: Sequence[bool]) -> bytes:
    layout: list[tuple[str, Any]] = [("fields", ">i2")]
    for place, column in enumerate(columns):
        layout.append((f"length {place}", ">i4"))
        if not missing[place]:
            layout.append((f"value {place}", column.dtype))
    made = np.empty(len(columns[0]), np.dtype(layout))
    made["fields"] = len(columns)
    for place, column in enumerate(columns):
        made[f"length {place}"] = -1 if missing[place] else column.dtype.itemsize
        if not missing[place]:
            made[f"value {place}"] = column
    return made.tobytes()


def _any_rows(columns: Sequence[pa.Array]) -> Iterator[bytes]:
    """Rows with texts in them, joined field by field."""
    parts: list[pa.Array | pa.Scalar] = [scalar(len(columns).to_bytes(2), pa.binary())]
    for column in columns:
        values = _binary(column)
        lengths = pc.fill_null(pc.binary_length(values), scalar(-1, pa.int32()))
        parts += [
            _bytes_each(lengths.to_numpy(zero_copy_only=False).astype(">i4")),
            pc.fill_null(values, _NOTHING),
        ]
    yield _bytes_of(pc.binary_join_element_wise(*parts, _NOTHING))


def _binary(column: pa.Array) -> pa.Array:
    """The bytes of each value."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return column.cast(pa.binary())
    made = _bytes_each(_numbers(column))
    return pc.if_else(column.is_valid(), made, pa.scalar(None, made.type))


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Numbers and times as PostgreSQL has them; a null is a zero."""
    if pa.types.is_timestamp(column.type):
        column = pc.subtract(column.cast(pa.int64()), scalar(SINCE_2000_US, pa.int64()))
    if column.null_count:
        column = pc.fill_null(column, scalar(0, column.type))
    raw: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return raw.astype(raw.dtype.newbyteorder(">"))


def _bytes_each(values: npt.NDArray[Any]) -> pa.Array:
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.dtype.itemsize
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
    )


def _bytes_of(rows: pa.Array) -> bytes:
    """All rows behind one another, which is how Arrow has them."""
    _, offsets, data = rows.buffers()
    ends = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + len(rows) + 1]
    return bytes(memoryview(data)[ends[0] : ends[-1]])
