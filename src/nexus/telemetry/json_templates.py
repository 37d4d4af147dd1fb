"""What JSON messages have in common is parsed once: those of one GPU differ in little.

A message is cut, as text, into its time, metric, value and the rest. Each distinct rest is
decoded once, with a time, a metric and a value put in that no message has; if they come out where
they belong, the cut was right for every message with that rest. Whatever does not fit is decoded
the plain way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.combine import Combined, combine
from nexus.telemetry.decoded import ENCODED_SOURCE_SCHEMA, Decoded, MessageError, in_order
from nexus.telemetry.json_single import FIRST_US, LAST_US, moment_of
from nexus.telemetry.reading import TIMESTAMP, encoded
from nexus.telemetry.scalars import scalar, whole

MANY: Final = 128  # fewer messages are not worth the cutting
_SHARED: Final = 3  # messages with the same rest, on average, that make it worth it

_TIME_TEXT: Final = "1971-03-05T07:11:13.171923Z"
_TIME_US: Final = 37_005_073_171_923
_VALUE: Final = -8.414709848078965e-67
_METRIC: Final = "a metric that no message has"
_PLAIN_TEXT: Final = r"^[^\\\x00-\x1f]+$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"

Decode = Callable[[Sequence[bytes]], Decoded]


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a writer sets its JSON: with spaces after colons and commas, or without."""

    start: str  # up to the time
    before_metric: str
    before_value: str
    after_value: str


_SHAPES: Final = (
    _Shape('{"timestamp":"', '","metric_name":"', '"value":', ","),
    _Shape('{"timestamp": "', '", "metric_name": "', '"value": ', ", "),
)


@dataclass(frozen=True)
class _Cut:
    """Messages cut into their parts; `rows` says which messages they are."""

    rows: pa.Array
    times: pa.Array
    metrics: pa.DictionaryArray
    values: pa.Array
    rests: Combined


def by_template(values: Sequence[bytes], decode: Decode) -> Decoded | None:
    """Decode messages through what they share; None if they share too little."""
    shape = next((s for s in _SHAPES if values[0].startswith(s.start.encode())), None)
    if shape is None:
        return None
    cut = _cut(values, shape)
    if len(cut.rests) * _SHARED > len(cut.rows):
        return None
    shared = decode([_filled(rest, shape) for rest in cut.rests.rows()])
    fits = _fits(cut, shared)
    parts = [_spread(cut, shared, fits)]
    done = parts[0].origin
    if len(done) < len(values):
        known = set(done.to_pylist())
        others = [number for number in range(len(values)) if number not in known]
        parts.append(_plainly(values, others, decode))
    return in_order(parts, [])


def _cut(values: Sequence[bytes], shape: _Shape) -> _Cut:
    text, rows = _as_text(values)
    parts = _kept({"rows": rows, "left": text}, pc.starts_with(text, shape.start))
    parts = _split(parts, "left", shape.before_metric, "time")
    parts = _split(parts, "left", '"', "metric")
    parts = _split(parts, "left", shape.before_value, "before")
    parts = _split(parts, "left", shape.after_value, "number")
    parts = _kept(parts, pc.match_substring_regex(parts["number"], _NUMBER))
    metrics = encoded(parts["metric"])
    plain = pc.match_substring_regex(metrics.dictionary, _PLAIN_TEXT)
    parts = _kept(parts | {"metric": metrics}, plain.take(metrics.indices))
    return _Cut(
        parts["rows"],
        _times(parts["time"], len(shape.start)),
        parts["metric"],
        parts["number"].cast(pa.float64()),
        combine([parts["before"], parts["left"]]),
    )


def _split(parts: dict[str, pa.Array], name: str, pattern: str, left: str) -> dict[str, pa.Array]:
    """Cut a part at the first place of a pattern; messages that lack it are let go."""
    halves = pc.split_pattern(parts[name], pattern=pattern, max_splits=1)
    parts = _kept(
        parts | {name: halves}, pc.equal(pc.list_value_length(halves), scalar(2, pa.int32()))
    )
    halves = parts[name]
    return parts | {left: pc.list_element(halves, 0), name: pc.list_element(halves, 1)}


def _kept(parts: dict[str, pa.Array], which: pa.Array) -> dict[str, pa.Array]:
    if pc.all(which).as_py():
        return parts
    return {name: column.filter(which) for name, column in parts.items()}


def _as_text(values: Sequence[bytes]) -> tuple[pa.Array, pa.Array]:
    """The messages that are text at all, and which they are."""
    rows = pa.arange(0, len(values)).cast(pa.int32())
    raw = pa.array(values, pa.binary())
    try:
        return raw.cast(pa.string()), rows
    except pa.ArrowInvalid:
        readable = pa.array([_is_text(value) for value in values])
        return raw.filter(readable).cast(pa.string()), rows.filter(readable)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _times(starts: pa.Array, width: int) -> pa.Array:
    """The times at the start of messages; null where there is none."""
    distinct = encoded(starts)
    text = pc.utf8_slice_codeunits(distinct.dictionary, start=width)
    try:
        parsed = text.cast(TIMESTAMP)
    except pa.ArrowInvalid:
        parsed = pa.array([moment_of(time) for time in text.to_pylist()], TIMESTAMP)
    since = parsed.cast(pa.int64())
    bounded = pc.and_(
        pc.greater_equal(since, whole(FIRST_US)), pc.less_equal(since, whole(LAST_US))
    )
    parsed = pc.if_else(bounded, parsed, scalar(None, TIMESTAMP))
    return parsed.take(distinct.indices)


def _filled(rest: tuple[str, ...], shape: _Shape) -> bytes:
    before, after = rest
    head = f'{shape.start}{_TIME_TEXT}{shape.before_metric}{_METRIC}"'
    value = f"{shape.before_value}{_VALUE!r}{shape.after_value}"
    return f"{head}{before}{value}{after}".encode()


def _fits(cut: _Cut, shared: Decoded) -> pa.Array:
    """Which cut messages are understood: their rest is good, and time and value in place."""
    table = shared.table
    placed = pc.and_(
        pc.equal(table.column("timestamp").cast(pa.int64()), whole(_TIME_US)),
        pc.equal(table.column("source_value"), scalar(_VALUE, pa.float64())),
    )
    placed = pc.and_(
        placed,
        pc.equal(table.column("source_metric").cast(pa.string()), scalar(_METRIC, pa.string())),
    )
    good = pc.is_in(cut.rests.codes, value_set=shared.origin.filter(placed.combine_chunks()))
    return pc.and_(good, pc.and_(pc.is_valid(cut.times), pc.is_finite(cut.values)))


def _spread(cut: _Cut, shared: Decoded, fits: pa.Array) -> Decoded:
    """The readings of all messages that fit, made of their rests, times and values."""
    all_fit = pc.all(fits).as_py()
    codes, times, metrics, values, rows = (
        column if all_fit else column.filter(fits)
        for column in (cut.rests.codes, cut.times, cut.metrics, cut.values, cut.rows)
    )
    places = pc.index_in(codes, value_set=shared.origin)
    table = shared.table.take(places)
    ingested = table.column("ingested")
    unsaid = pc.equal(ingested.cast(pa.int64()), whole(_TIME_US))
    made = {
        "timestamp": times,
        "source_metric": metrics,
        "source_value": values,
        "ingested": pc.if_else(unsaid, times, ingested),
    }
    columns = [made.get(name, table.column(name)) for name in ENCODED_SOURCE_SCHEMA.names]
    return Decoded(pa.table(columns, schema=ENCODED_SOURCE_SCHEMA), [], rows)


def _plainly(values: Sequence[bytes], numbers: list[int], decode: Decode) -> Decoded:
    found = decode([values[number] for number in numbers])
    errors = [MessageError(numbers[error.index], error.reason) for error in found.errors]
    origin = pa.array(numbers, pa.int32()).take(found.origin)
    return Decoded(found.table, errors, origin)
