"""From what sources say to what tables hold: the one function that makes readings canonical.

Names, units and label spellings are settled for each distinct kind of reading and spread to the
rows; blank sentinels become "not collected" (null); source name, value and unit stay as they were.
It never infers across rows. Values outside of physical bounds pass: `bounds_reason` names them.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.catalogue import DISTINGUISHING, METRICS, Meaning, meaning_of
from nexus.telemetry.combine import Combined, combine
from nexus.telemetry.labels import COLUMN_OF, labels_of, parsed_json, with_labels
from nexus.telemetry.reading import READING_SCHEMA, SOURCE_SCHEMA, conform, encoded
from nexus.telemetry.scalars import EMPTY, NO, NO_TEXT, scalar

# DCGM's blanks, as the doubles that they arrive as: blank, not found, unsupported, no permission.
BLANK_INT32: Final = float(0x7FFFFFF0)
BLANK_FP64: Final = 140_737_488_355_328.0
BLANK_INT64: Final = float(0x7FFFFFFFFFFFFFF0)
_BLANKS: Final = 16  # sentinels of each width lie within this many of the first

_UUID: Final = r"^(GPU|MIG)-"
_DISTINGUISHES: Final = f'"({"|".join(DISTINGUISHING)})":'
_NAMES_COLUMN: Final = f'"({"|".join(COLUMN_OF)})":'


def normalise(table: pa.Table | pa.RecordBatch) -> pa.Table:
    """Make source readings canonical: READING_SCHEMA, with text encoded where it was or is new."""
    table = _identified(_with_label_columns(conform(table, SOURCE_SCHEMA)))
    kinds = combine([table.column("source_metric"), table.column("unit")])
    meanings = [meaning_of(name, unit) for name, unit in kinds.rows()]
    columns = {
        **{name: table.column(name) for name in SOURCE_SCHEMA.names},
        "metric": kinds.spread([meaning.metric for meaning in meanings]),
        "value": _values(table.column("source_value"), kinds, meanings),
        "instance": _instances(kinds, meanings, encoded(table.column("labels"))),
    }
    fields = [field.with_type(columns[field.name].type) for field in READING_SCHEMA]
    return pa.table(columns, schema=pa.schema(fields))


def bounds_reason(table: pa.Table) -> pa.DictionaryArray:
    """For each canonical reading, why its value cannot be right; null where it can."""
    kinds = combine([table.column(name) for name in ("metric", "source_metric", "unit")])
    meanings = [meaning_of(name, unit) for _, name, unit in kinds.rows()]
    value = table.column("value")
    low = _spread((m.low for m in meanings), kinds.codes)
    high = _spread((m.high for m in meanings), kinds.codes)
    outside = pc.fill_null(pc.or_(pc.less(value, low), pc.greater(value, high)), NO)
    unclear = pa.array([bool(m.problem) for m in meanings], pa.bool_()).take(kinds.codes)
    no_number = pc.fill_null(pc.invert(pc.is_finite(value)), NO)
    reason = pc.if_else(outside, _taken([_bounds(m) for m in meanings], kinds), NO_TEXT)
    reason = pc.if_else(unclear, _taken([m.problem for m in meanings], kinds), reason)
    return encoded(pc.if_else(no_number, scalar("the value is no number", pa.string()), reason))


def _with_label_columns(table: pa.Table) -> pa.Table:
    """Fill columns that only the labels name, in whichever spelling."""
    labels = encoded(table.column("labels"))
    if not pc.any(pc.match_substring_regex(labels.dictionary, _NAMES_COLUMN)).as_py():
        return table
    return with_labels(table, parsed_json(labels))


def _identified(table: pa.Table) -> pa.Table:
    """Give every reading a uuid: its own, the one its index holds, or host/index."""
    uuid = encoded(table.column("uuid"))
    if not pc.any(pc.equal(uuid.dictionary, EMPTY)).as_py():
        return table
    devices = combine([uuid, table.column("hostname"), table.column("gpu")])
    held = pc.match_substring_regex(devices.columns[2], _UUID).to_pylist()
    rows = [
        _device(own, hostname, gpu, gpu_is_uuid=holds)
        for (own, hostname, gpu), holds in zip(devices.rows(), held, strict=True)
    ]
    for name, texts in zip(("uuid", "gpu"), zip(*rows, strict=True), strict=True):
        at = table.schema.get_field_index(name)
        made = devices.spread(list(texts))
        table = table.set_column(at, table.schema.field(at).with_type(made.type), made)
    return table


def _device(uuid: str, hostname: str, gpu: str, *, gpu_is_uuid: bool) -> tuple[str, str]:
    if uuid:
        return uuid, gpu
    return (gpu, "") if gpu_is_uuid else (f"{hostname}/{gpu}", gpu)


def _values(source: pa.ChunkedArray, kinds: Combined, meanings: list[Meaning]) -> pa.ChunkedArray:
    value = source
    if any(meaning.multiply != 1 for meaning in meanings):
        value = pc.multiply(value, _spread((m.multiply for m in meanings), kinds.codes))
    if any(meaning.divide != 1 for meaning in meanings):
        value = pc.divide(value, _spread((m.divide for m in meanings), kinds.codes))
    blank = _is_blank(source, kinds, meanings)
    return value if blank is None else pc.if_else(blank, scalar(None, pa.float64()), value)


def _is_blank(
    source: pa.ChunkedArray, kinds: Combined, meanings: list[Meaning]
) -> pa.ChunkedArray | None:
    """Which values stand for "not collected"; None when none can.

    A blank is told from a large value by what the metric can be at all: a temperature never
    reaches the 32-bit blank, a nanosecond counter passes both smaller ones in days, and only
    the few sentinel values themselves are blanks to it.
    """
    highest = pc.max(source).as_py()
    if highest is None or highest < BLANK_INT32:
        return None
    blank = pc.greater_equal(source, _spread((_blank_from(m) for m in meanings), kinds.codes))
    for first in (BLANK_INT32, BLANK_FP64):
        if not highest < first:  # a NaN among the values hides the highest
            window = pc.and_(
                pc.greater_equal(source, scalar(first, pa.float64())),
                pc.less(source, scalar(first + _window(first), pa.float64())),
            )
            blank = pc.or_(blank, window)
    return blank


def _blank_from(meaning: Meaning) -> float:
    """The value, in the source's unit, from which on everything is a blank."""
    highest = meaning.high * meaning.divide / meaning.multiply
    return next((b for b in (BLANK_INT32, BLANK_FP64) if highest < b), BLANK_INT64)


def _window(first: float) -> float:
    # Four 32-bit numbers are few enough; that much tolerance costs no real count its value.
    return 4.0 if first == BLANK_INT32 else float(_BLANKS)


def _instances(
    kinds: Combined, meanings: list[Meaning], labels: pa.DictionaryArray
) -> pa.DictionaryArray:
    fixed = kinds.spread([meaning.instance for meaning in meanings])
    able = any(meaning.labels for meaning in meanings)
    telling = pc.match_substring_regex(labels.dictionary, _DISTINGUISHES)
    if not (able and pc.any(telling).as_py()):
        return fixed
    numbered = pa.array([str(number) for number in range(len(meanings))])
    pairs = combine([pa.DictionaryArray.from_arrays(kinds.codes, numbered), labels])
    return pairs.spread([_instance(meanings[int(number)], text) for number, text in pairs.rows()])


def _instance(meaning: Meaning, labels: str) -> str:
    """The canonical text of what tells a reading apart: "link=3", or "nvswitch=0,link=3"."""
    if meaning.instance or not meaning.labels:
        return meaning.instance
    said = labels_of(labels)
    parts = {DISTINGUISHING[k]: v for k, v in said.items() if k in DISTINGUISHING and v}
    return ",".join(f"{k}={v}" for k, v in sorted(parts.items()) if k in meaning.labels)


def _bounds(meaning: Meaning) -> str:
    known = METRICS.get(meaning.metric)
    unit = known.unit if known else meaning.unit
    return f"{meaning.metric} is outside of {meaning.low:g} to {meaning.high:g} {unit}"


def _taken(texts: list[str], kinds: Combined) -> pa.Array:
    return pa.array(texts, pa.string()).take(kinds.codes)


def _spread(numbers: Iterable[float], codes: pa.Array) -> pa.Array:
    return pa.array([float(number) for number in numbers], pa.float64()).take(codes)
