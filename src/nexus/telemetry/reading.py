"""What a reading is: the columns as a source says them, and the canonical columns made of them.

Missing text is the empty string, never null; a null `value` means "not collected"; `source_value`
is always a finite number (`telemetry.checks` says why a reading is refused). Text columns may be
dictionary-encoded in memory: every function of this package takes both forms.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.errors import SchemaError
from nexus.telemetry.scalars import EMPTY, scalar

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
ENCODED_TEXT: Final = pa.dictionary(pa.int32(), pa.string())

# What names the device that a reading is of, and who held it. `gpu` is the index on its host.
DEVICE_COLUMNS: Final = ("uuid", "gpu", "device", "model", "hostname", "cluster", "mig")
HOLDER_COLUMNS: Final = ("namespace", "pod", "container")


def _field(name: str) -> pa.Field:
    return pa.field(name, pa.string(), nullable=False)


_ORIGIN: Final = [
    pa.field("timestamp", TIMESTAMP, nullable=False),
    _field("source_metric"),
    pa.field("source_value", pa.float64(), nullable=False),
    _field("unit"),
]
_CONTEXT: Final = [
    *(_field(name) for name in (*DEVICE_COLUMNS, *HOLDER_COLUMNS)),
    _field("labels"),
    pa.field("ingested", TIMESTAMP, nullable=False),
]

# What the queue carries: exactly what the source said. `labels` is a JSON object's text with
# sorted keys, without the labels that are columns already, and "" when there are none.
SOURCE_SCHEMA: Final = pa.schema([*_ORIGIN, *_CONTEXT])

# What the tables hold: the same, and what `normalise` makes of it.
READING_SCHEMA: Final = pa.schema(
    [
        *_ORIGIN,
        *_CONTEXT,
        _field("metric"),
        pa.field("value", pa.float64(), nullable=True),
        _field("instance"),
    ]
)


def plain(table: pa.Table | pa.RecordBatch) -> pa.Table:
    """The same readings with every dictionary-encoded column decoded."""
    table = as_table(table)
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            decoded = table.column(index).cast(field.type.value_type)
            table = table.set_column(index, field.with_type(field.type.value_type), decoded)
    return table


def in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    """A column's values as one array; no copy if that is what it has."""
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    return pa.array([], column.type) if isinstance(whole, pa.ChunkedArray) else whole


def as_table(table: pa.Table | pa.RecordBatch) -> pa.Table:
    """A table, whether it came as one or as a single batch."""
    return pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table


def source_table(
    columns: dict[str, pa.Array | pa.ChunkedArray | str | None], rows: int | None = None
) -> pa.Table:
    """Make a table of SOURCE_SCHEMA from the columns a source has; what it lacks becomes "".

    A plain string stands for a column that says the same in every row. Null text becomes "".
    `timestamp`, `source_metric` and `source_value` must be given; `ingested` may be left out
    and then equals `timestamp` until the streamer stamps it. A null time or value is let
    through: `checks.refusals` names it, and nothing but good readings goes further.
    """
    unknown = columns.keys() - set(SOURCE_SCHEMA.names)
    missing = {"timestamp", "source_metric", "source_value"} - columns.keys()
    if unknown or missing:
        raise SchemaError(f"not a reading: unknown {sorted(unknown)}, missing {sorted(missing)}")
    count = rows if rows is not None else _length(columns)
    given = {**columns, "ingested": columns.get("ingested", columns["timestamp"])}
    loose = [field.with_nullable(not pa.types.is_string(field.type)) for field in SOURCE_SCHEMA]
    made = [_column(given.get(field.name), field, count) for field in loose]
    return pa.table(made, schema=pa.schema(_fields_of(made)))


def conform(table: pa.Table | pa.RecordBatch, schema: pa.Schema = SOURCE_SCHEMA) -> pa.Table:
    """The table with exactly the schema's columns, in its order; text stays encoded if it was."""
    table = as_table(table)
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise SchemaError(f"not readings: the columns {', '.join(missing)} are missing")
    made = [_column(table.column(field.name), field, table.num_rows) for field in schema]
    return pa.table(made, schema=pa.schema(_fields_of(made, schema)))


def encoded(column: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
    """A text column as one dictionary array with int32 indices (no copy if it is one already)."""
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # a column of no chunks stays chunked
            column = pa.array([], column.type)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return column if column.type == ENCODED_TEXT else column.cast(ENCODED_TEXT)


def _length(columns: dict[str, pa.Array | pa.ChunkedArray | str | None]) -> int:
    for column in columns.values():
        if column is not None and not isinstance(column, str):
            return len(column)
    raise SchemaError("the number of readings is not known: no column is an array")


def _column(
    column: pa.Array | pa.ChunkedArray | str | None, field: pa.Field, count: int
) -> pa.Array | pa.ChunkedArray:
    if column is None or isinstance(column, str):
        return _constant(column or "", field, count)
    if column.type == field.type:
        return _without_nulls(column, field)
    if pa.types.is_dictionary(column.type) and pa.types.is_string(field.type):
        if column.type.value_type != field.type:
            column = column.cast(pa.dictionary(column.type.index_type, field.type))
        return _without_nulls(column, field)
    try:
        return _without_nulls(column.cast(field.type), field)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"the column {field.name} does not fit: {error}") from error
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(f"the column {field.name} does not fit: {error}") from error


def _constant(text: str, field: pa.Field, count: int) -> pa.Array:
    if not pa.types.is_string(field.type):
        raise SchemaError(f"the column {field.name} must be an array")
    indices = pa.repeat(scalar(0, pa.int32()), count)
    return pa.DictionaryArray.from_arrays(indices, pa.array([text], pa.string()))


def _without_nulls(
    column: pa.Array | pa.ChunkedArray, field: pa.Field
) -> pa.Array | pa.ChunkedArray:
    if field.nullable or not (column.null_count or _has_null_entries(column)):
        return column
    if not pa.types.is_string(field.type):
        raise SchemaError(f"the column {field.name} has {column.null_count} nulls")
    decoded = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    return pc.fill_null(decoded, EMPTY)


def _has_null_entries(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a dictionary holds a null, which the rows that point at it do not count."""
    if not pa.types.is_dictionary(column.type):
        return False
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return any(chunk.dictionary.null_count for chunk in chunks)


def _fields_of(
    columns: list[pa.Array | pa.ChunkedArray], schema: pa.Schema = SOURCE_SCHEMA
) -> list[pa.Field]:
    return [field.with_type(made.type) for field, made in zip(schema, columns, strict=True)]
