"""Many readings in one message: an Arrow IPC stream of one batch, its text dictionary-encoded.

Lossless for any double and any text. A message holds at most MAX_READINGS and MAX_BYTES, which
decoding enforces too; whatever is wrong with the bytes, only UnreadableMessage comes out.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.arrow_bounds import check_unpacked_size
from nexus.telemetry.decoded import ENCODED_SOURCE_SCHEMA
from nexus.telemetry.errors import SchemaError, UnencodableReading, UnreadableMessage
from nexus.telemetry.reading import SOURCE_SCHEMA, conform, encoded, in_one_piece

MAX_READINGS: Final = 10_000
MAX_BYTES: Final = 512 * 1024

_SMALL: Final = 32  # dictionaries up to this size are sent whole, used or not
_NARROW: Final = 1 << 15  # dictionaries up to this size have 16-bit indices


def encode_arrow(table: pa.Table | pa.RecordBatch, compression: str | None = "zstd") -> bytes:
    """One message with all the readings of a table, which must be few enough."""
    table = conform(table, SOURCE_SCHEMA)
    if table.num_rows > MAX_READINGS:
        raise UnencodableReading(f"{table.num_rows} readings are more than {MAX_READINGS}")
    columns = [_narrowed(column) for column in table.columns]
    batch = pa.record_batch(columns, names=SOURCE_SCHEMA.names)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def split_for_messages(
    table: pa.Table, compression: str | None = "zstd", readings: int = MAX_READINGS
) -> Iterator[tuple[bytes, int]]:
    """Cut a table into messages: (value, number of readings), in order.

    A piece that turns out too large is halved, down to single readings.
    """
    step = max(1, min(readings, MAX_READINGS))
    for start in range(0, table.num_rows, step):
        yield from _fitting(table.slice(start, step), compression)


def decode_arrow(value: bytes) -> pa.Table:
    """The readings of one message, as ENCODED_SOURCE_SCHEMA."""
    if len(value) > MAX_BYTES:
        raise UnreadableMessage(f"{len(value)} bytes are more than {MAX_BYTES}")
    try:
        check_unpacked_size(value, MAX_READINGS)
        with pa.ipc.open_stream(value, options=_READ) as reader:
            _check_columns(reader.schema)
            batches = _bounded(reader)
        table = pa.Table.from_batches(batches, reader.schema)
        table.validate(full=True)
        return _canonical(table)
    except SchemaError as error:
        raise UnreadableMessage(str(error)) from error
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = str(error).partition("\n")[0]
        raise UnreadableMessage(f"no Arrow stream of readings: {reason}") from error


_READ: Final = pa.ipc.IpcReadOptions(use_threads=False)


def _fitting(table: pa.Table, compression: str | None) -> Iterator[tuple[bytes, int]]:
    value = encode_arrow(table, compression)
    if len(value) <= MAX_BYTES:
        yield value, table.num_rows
        return
    if table.num_rows == 1:
        raise UnencodableReading(f"one reading of {len(value)} bytes is more than {MAX_BYTES}")
    half = table.num_rows // 2
    yield from _fitting(table.slice(0, half), compression)
    yield from _fitting(table.slice(half), compression)


def _narrowed(column: pa.ChunkedArray) -> pa.Array:
    """A text column with a dictionary of only what it uses, in indices as short as they can be."""
    if not (pa.types.is_string(column.type) or pa.types.is_dictionary(column.type)):
        return in_one_piece(column)
    text = encoded(column)
    if len(text.dictionary) > _SMALL:
        used = pc.dictionary_encode(text.indices)
        text = pa.DictionaryArray.from_arrays(used.indices, text.dictionary.take(used.dictionary))
    width = pa.int16() if len(text.dictionary) < _NARROW else pa.int32()
    return pa.DictionaryArray.from_arrays(text.indices.cast(width), text.dictionary)


def _check_columns(schema: pa.Schema) -> None:
    missing = [name for name in SOURCE_SCHEMA.names if name not in schema.names]
    if missing:
        raise SchemaError(f"not readings: the columns {', '.join(missing)} are missing")


def _bounded(reader: pa.RecordBatchReader) -> list[pa.RecordBatch]:
    batches, rows = [], 0
    for batch in reader:
        rows += batch.num_rows
        if rows > MAX_READINGS:
            raise UnreadableMessage(f"more than {MAX_READINGS} readings in one message")
        batches.append(batch)
    return batches


def _canonical(table: pa.Table) -> pa.Table:
    table = conform(table, SOURCE_SCHEMA)
    columns = [
        encoded(column) if pa.types.is_string(field.type) else column
        for field, column in zip(SOURCE_SCHEMA, table.columns, strict=True)
    ]
    return pa.table(columns, schema=ENCODED_SOURCE_SCHEMA)
