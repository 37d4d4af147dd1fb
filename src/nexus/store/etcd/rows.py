"""Readings as keys and JSON values, and back; in columns, however many there are.

A value is one JSON object with the fields of READING_SCHEMA, as `etcdctl get` shows it. Left out
are empty texts, a null `value`, and a `source_value` or `ingested` that says the same as `value`
or `timestamp`. Python runs once for each series, never for each reading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from nexus.lake.errors import StoreError
from nexus.store.etcd.layout import MOMENT_DIGITS, StoreLayout, path_name
from nexus.telemetry.combine import combine
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import READING_SCHEMA, in_one_piece
from nexus.telemetry.scalars import EMPTY, scalar

# What a reader of JSON sees first, then the numbers, then the rest.
_TEXTS: Final = tuple(
    sorted(
        (f.name for f in READING_SCHEMA if pa.types.is_string(f.type)),
        key=lambda name: (name != "metric", READING_SCHEMA.names.index(name)),
    )
)
_PLACED: Final = ("cluster", "hostname", *SERIES_COLUMNS)  # what a key is made of, beside the time
_LOOSE: Final = pa.schema([field.with_nullable(True) for field in READING_SCHEMA])
_BLOCK_BYTES_MOST: Final = 1 << 30
_SERIES_KEPT: Final = 1 << 17


def reading_keys(layout: StoreLayout, readings: pa.Table) -> pa.Array:
    """The key of each reading (binary)."""
    placed = combine([readings.column(name) for name in _PLACED])
    heads, tails = [], []
    for cluster, host, *series in placed.rows():
        heads.append(f"{layout.path(cluster, host, series[0])}/data/")
        tails.append(f"_{path_name(series[SERIES_COLUMNS.index('metric')])}_{series_id(*series)}")
    moments = in_one_piece(readings.column("timestamp")).cast(pa.int64()).cast(pa.string())
    return _joined(
        pa.array(heads, pa.string()).take(placed.codes),
        pc.utf8_lpad(moments, MOMENT_DIGITS, "0"),
        pa.array(tails, pa.string()).take(placed.codes),
    ).cast(pa.binary())


def reading_values(readings: pa.Table) -> pa.Array:
    """Each reading as the text of a JSON object (binary)."""
    told = combine([readings.column(name) for name in _TEXTS])
    ends = [_rest(dict(zip(_TEXTS, texts, strict=True))) for texts in told.rows()]
    timestamp, ingested, value, source = (
        in_one_piece(readings.column(name))
        for name in ("timestamp", "ingested", "value", "source_value")
    )
    as_said = pc.fill_null(pc.equal(value, source), scalar(False, pa.bool_()))
    return _joined(
        scalar('{"timestamp":"', pa.string()),
        moments_text(timestamp),
        scalar('"', pa.string()),
        _number("value", value, pc.is_finite(value)),
        _number("source_value", source, pc.invert(as_said)),
        _unless(
            pc.equal(timestamp, ingested),
            _joined(
                scalar(',"ingested":"', pa.string()),
                moments_text(ingested),
                scalar('"', pa.string()),
            ),
        ),
        pa.array(ends, pa.string()).take(told.codes),
    ).cast(pa.binary())


def readings_from(values: Sequence[bytes]) -> pa.Table:
    """The readings (READING_SCHEMA) that values hold, in their order."""
    return completed(parsed(values, _LOOSE))


def parsed(values: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """JSON objects as a table with these columns; null where an object does not say."""
    if not values:
        return schema.empty_table()
    data = b"\n".join(values)
    try:
        found = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(
                use_threads=False, block_size=min(len(data) + 1, _BLOCK_BYTES_MOST)
            ),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid as error:
        raise StoreError(f"etcd: the store holds a value that is not its own: {error}") from None
    if found.num_rows != len(values):
        raise StoreError(f"etcd: {len(values)} values of the store hold {found.num_rows} objects")
    return found


def completed(found: pa.Table) -> pa.Table:
    """Readings with what their JSON left out."""
    columns: dict[str, pa.ChunkedArray] = {}
    for field in READING_SCHEMA:
        column = found.column(field.name)
        columns[field.name] = pc.fill_null(column, EMPTY) if field.name in _TEXTS else column
    columns["source_value"] = pc.coalesce(columns["source_value"], columns["value"])
    columns["ingested"] = pc.coalesce(columns["ingested"], columns["timestamp"])
    return pa.table(columns, schema=READING_SCHEMA)


@lru_cache(maxsize=_SERIES_KEPT)
def series_id(*series: str) -> str:
    """16 hex digits of what tells series apart (SERIES_COLUMNS)."""
    said = b"".join(len(text.encode()).to_bytes(4) + text.encode() for text in series)
    return blake2b(said, digest_size=8).hexdigest()


def moments_text(moments: pa.Array) -> pa.Array:
    """`2025-07-18T20:42:34.000000Z`"""
    # Without its zone first: a cast to text that has to ask for the zone takes fifty times as long.
    text = moments.cast(pa.timestamp("us")).cast(pa.string())
    return _joined(pc.binary_replace_slice(text, 10, 11, "T"), scalar("Z", pa.string()))


def object_of(said: Mapping[str, object]) -> str:
    """A JSON object of what is said, on one line."""
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def _rest(texts: Mapping[str, str]) -> str:
    """What the texts of a reading add to its object, and the end of it."""
    said = object_of({name: text for name, text in texts.items() if text})
    return "," + said[1:] if len(said) > 2 else "}"


def _number(name: str, numbers: pa.Array, is_told: pa.Array) -> pa.Array:
    text = _joined(scalar(f',"{name}":', pa.string()), numbers.cast(pa.string()))
    return pc.if_else(pc.fill_null(is_told, scalar(False, pa.bool_())), text, EMPTY)


def _unless(condition: pa.Array, text: pa.Array) -> pa.Array:
    return pc.if_else(condition, EMPTY, text)


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, EMPTY)
