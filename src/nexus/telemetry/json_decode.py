"""JSON messages to readings, in bulk: one parse for all, and only what resists it one by one.

Unknown fields become labels. A message that is no reading gets an error with its reason; it never
costs the others. `gpu_id` may hold the uuid where there is no field `uuid`; a message without
`ingested` is taken to be ingested at its timestamp.
"""

import io
import json
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring as _quoted
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from nexus.telemetry.combine import combine
from nexus.telemetry.decoded import ENCODED_SOURCE_SCHEMA, Decoded, MessageError, in_order, nothing
from nexus.telemetry.json_fields import FIELD_OF, MODEL_LABEL
from nexus.telemetry.json_single import (
    FIRST_US,
    LAST_US,
    NO_METRIC,
    NO_NUMBER,
    NO_TIME,
    decode_single,
)
from nexus.telemetry.json_templates import MANY, by_template
from nexus.telemetry.reading import ENCODED_TEXT, TIMESTAMP, encoded, source_table
from nexus.telemetry.scalars import EMPTY, NO, NO_TEXT, YES, scalar, whole

_FEW: Final = 8  # so many messages are looked at one by one rather than parsed again
_SAMPLES: Final = 32
_BLOCK: Final = 1 << 20
_EPOCH: Final = scalar(0, TIMESTAMP)
_UUID: Final = r"^(GPU|MIG)-"
_NUMBERS: Final = {"timestamp": TIMESTAMP, "ingested": TIMESTAMP, "value": pa.float64()}
_KNOWN: Final = {**_NUMBERS, **dict.fromkeys(FIELD_OF.values(), pa.string())}


def decode_json(values: Sequence[bytes]) -> Decoded:
    """The readings of all good messages, and why the others are none."""
    shared = by_template(values, decode_plainly) if len(values) >= MANY else None
    return decode_plainly(values) if shared is None else shared


def decode_plainly(values: Sequence[bytes]) -> Decoded:
    """The same, without looking for what messages have in common."""
    return in_order(_decode(values, 0), [])


def _decode(values: Sequence[bytes], first: int) -> list[Decoded]:
    """Decode together if that works, else in halves, until what is bad stands alone."""
    if not values:
        return []
    parsed = _parse(values)
    if parsed is not None:
        return [_readings(parsed, first)]
    if len(values) <= _FEW:
        return [_one_by_one(values, first)]
    half = len(values) // 2
    return _decode(values[:half], first) + _decode(values[half:], first + half)


def _parse(values: Sequence[bytes]) -> pa.Table | None:
    """All messages as one table; None if any of them stands in the way."""
    lines = b"\n".join(values)
    if not _one_object_a_line(lines, len(values)):
        lines = b"\n".join([value.strip() for value in values])
        if not _one_object_a_line(lines, len(values)):
            return None
    try:
        if not lines.isascii():
            lines.decode()  # the parser does not look at the encoding
        return _parse_lines(lines, values)
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _one_object_a_line(lines: bytes, count: int) -> bool:
    """Whether line n is message n: the parser takes two objects on a line for two rows."""
    between = lines.count(b"\n")
    edges = lines.startswith(b"{") and lines.endswith(b"}")
    return edges and between == count - 1 == lines.count(b"}\n{")


def _parse_lines(lines: bytes, values: Sequence[bytes]) -> pa.Table | None:
    read = _reader(lines, values)
    try:
        table = read(_guessed(values), "error")
    except pa.ArrowInvalid:
        wanted = _as_text(read(pa.schema(list(_NUMBERS.items())), "infer").schema)
        if wanted is None:
            return None
        table = read(wanted, "error")
    return table if table.num_rows == len(values) else None


def _reader(lines: bytes, values: Sequence[bytes]) -> Callable[[pa.Schema, str], pa.Table]:
    # A block must hold a whole message, whatever its size.
    block = max(_BLOCK, 1 + max(map(len, values)))
    options = pj.ReadOptions(use_threads=len(lines) > block, block_size=block)

    def read(schema: pa.Schema, unexpected: str) -> pa.Table:
        wanted = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
        return pj.read_json(io.BytesIO(lines), read_options=options, parse_options=wanted)

    return read


def _guessed(values: Sequence[bytes]) -> pa.Schema:
    """The fields that a few messages from all over have: most often, the others have no more."""
    fields, labels, has_labels = dict(_KNOWN), dict[str, pa.DataType](), False
    for value in values[:: max(1, len(values) // _SAMPLES)]:
        try:
            message = json.loads(value)
        except (ValueError, RecursionError):
            continue
        fields = dict.fromkeys(message, pa.string()) | fields
        if isinstance(message.get("labels"), dict):
            labels |= dict.fromkeys(message["labels"], pa.string())
            has_labels = True
    if has_labels:
        fields["labels"] = pa.struct(list(labels.items()))
    return pa.schema(list(fields.items()))


def _as_text(schema: pa.Schema) -> pa.Schema | None:
    """The schema with text for everything that is a label; None if something cannot be."""
    fields = dict(_KNOWN)
    for field in schema:
        if field.name in _NUMBERS:
            continue
        is_labels = field.name == "labels" and pa.types.is_struct(field.type)
        children = list(field.type) if is_labels else [field]
        kinds = [(child.name, _label_type(child.type)) for child in children]
        if any(kind is None for _, kind in kinds):
            return None
        fields[field.name] = pa.struct(kinds) if is_labels else kinds[0][1]
    return pa.schema(list(fields.items()))


def _label_type(inferred: pa.DataType) -> pa.DataType | None:
    """How to read a label: whole numbers and truths keep their text, fractions might not."""
    if pa.types.is_integer(inferred) or pa.types.is_boolean(inferred):
        return inferred
    texts = pa.types.is_string(inferred) or pa.types.is_timestamp(inferred)
    return pa.string() if texts or pa.types.is_null(inferred) else None


def _readings(parsed: pa.Table, first: int) -> Decoded:
    reasons = _reasons(parsed)
    origin = pa.arange(first, first + parsed.num_rows).cast(pa.int32())
    errors: list[MessageError] = []
    if reasons is not None:
        bad = pc.is_valid(reasons)
        found = zip(origin.filter(bad).to_pylist(), reasons.filter(bad).to_pylist(), strict=True)
        errors = [MessageError(index, reason) for index, reason in found]
        good = pc.invert(bad)
        parsed, origin = parsed.filter(good), origin.filter(good)
    return Decoded(_columns(parsed), errors, origin)


def _reasons(parsed: pa.Table) -> pa.Array | None:
    """Why rows are no readings; None when all are."""
    metric = parsed.column("metric_name").cast(pa.string())
    tests = (
        (NO_TIME, _is_no_time(parsed.column("timestamp"))),
        (NO_TIME, _is_no_time(pc.coalesce(parsed.column("ingested"), _EPOCH))),
        (NO_NUMBER, pc.invert(pc.fill_null(pc.is_finite(parsed.column("value")), NO))),
        (NO_METRIC, pc.equal(pc.fill_null(metric, EMPTY), EMPTY)),
    )
    if not any(pc.any(test).as_py() for _, test in tests):
        return None
    conditions = pc.make_struct(
        *(test.combine_chunks() for _, test in tests), field_names=[str(n) for n in range(4)]
    )
    return pc.case_when(conditions, *(scalar(reason, pa.string()) for reason, _ in tests))


def _is_no_time(column: pa.ChunkedArray) -> pa.ChunkedArray:
    since = column.cast(pa.int64())
    outside = pc.or_(pc.less(since, whole(FIRST_US)), pc.greater(since, whole(LAST_US)))
    return pc.fill_null(outside, YES)


def _columns(parsed: pa.Table) -> pa.Table:
    column = {name: parsed.column(field).cast(pa.string()) for name, field in FIELD_OF.items()}
    labels, model = _labels(parsed)
    gpu, uuid = _identity(column["gpu"], column["uuid"])
    ingested = pc.coalesce(parsed.column("ingested"), parsed.column("timestamp"))
    made = {
        **{name: _text(column[name]) for name in FIELD_OF},
        "gpu": _text(gpu),
        "uuid": _text(uuid),
        "model": model,
        "labels": labels,
        "timestamp": parsed.column("timestamp"),
        "source_value": parsed.column("value"),
        "ingested": ingested,
    }
    return pa.table(
        [made[name] for name in ENCODED_SOURCE_SCHEMA.names], schema=ENCODED_SOURCE_SCHEMA
    )


def _identity(gpu: pa.ChunkedArray, uuid: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    if uuid.null_count == 0:
        return gpu, uuid
    held = pc.fill_null(pc.and_(pc.is_null(uuid), pc.match_substring_regex(gpu, _UUID)), NO)
    return pc.if_else(held, EMPTY, gpu), pc.if_else(held, gpu, uuid)


def _labels(parsed: pa.Table) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
    """The canonical labels and the model, which most often is one of them."""
    said = _label_columns(parsed)
    model = pc.fill_null(parsed.column("model").cast(pa.string()), EMPTY)
    if MODEL_LABEL in said:
        beside = pc.is_valid(parsed.column("model"))
        model = pc.if_else(beside, model, pc.fill_null(said[MODEL_LABEL], EMPTY))
        said[MODEL_LABEL] = pc.if_else(beside, said[MODEL_LABEL], NO_TEXT)
    if not said:
        return _text(pa.array([""] * parsed.num_rows, pa.string())), encoded(model)
    kinds = combine([_fragments(name, said[name]) for name in sorted(said)])
    texts = [",".join(filter(None, row)) for row in kinds.rows()]
    return kinds.spread([f"{{{text}}}" if text else "" for text in texts]), encoded(model)


def _label_columns(parsed: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Each label's column: the fields that are not known, and the members of `labels`."""
    said = {
        name: parsed.column(name).cast(pa.string())
        for name in parsed.column_names
        if name not in _KNOWN and name != "labels"
    }
    if "labels" not in parsed.column_names:
        return said
    labels = parsed.column("labels").combine_chunks()
    if not pa.types.is_struct(labels.type):
        return said | {"labels": labels.cast(pa.string())}
    for field, member in zip(labels.type, labels.flatten(), strict=True):
        text = member.cast(pa.string())
        said[field.name] = pc.coalesce(text, said[field.name]) if field.name in said else text
    return said


def _fragments(name: str, column: pa.ChunkedArray) -> pa.DictionaryArray:
    """A label as it stands in canonical text, written once for each value; "" where absent."""
    values = column.dictionary_encode()
    if isinstance(values, pa.ChunkedArray):
        values = values.unify_dictionaries().combine_chunks()
    texts = [f"{_quoted(name)}:{_quoted(value)}" for value in values.dictionary.to_pylist()]
    indices = pc.fill_null(values.indices, scalar(len(texts), pa.int32()))
    return pa.DictionaryArray.from_arrays(indices, pa.array([*texts, ""], pa.string()))


def _text(column: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    return encoded(pc.fill_null(column, EMPTY) if column.null_count else column)


def _one_by_one(values: Sequence[bytes], first: int) -> Decoded:
    rows, origin, errors = [], [], []
    for index, value in enumerate(values, first):
        found = decode_single(value)
        if isinstance(found, str):
            errors.append(MessageError(index, found))
        else:
            rows.append(found)
            origin.append(index)
    if not rows:
        return nothing(errors)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    types = {field.name: field.type for field in ENCODED_SOURCE_SCHEMA}
    arrays = {
        name: pa.array(column, pa.string() if types[name] == ENCODED_TEXT else types[name])
        for name, column in columns.items()
    }
    table = source_table(
        {n: _text(a) if types[n] == ENCODED_TEXT else a for n, a in arrays.items()}
    )
    return Decoded(table.cast(ENCODED_SOURCE_SCHEMA), errors, pa.array(origin, pa.int32()))
