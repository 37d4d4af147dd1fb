"""The form in which readings cross Spark: numbers, and the number of their context.

Text is dear on the way through the JVM and hardly changes from reading to reading. So the text
columns of a reading, its *context*, cross once a task in a row of their own, and readings name
them by a hash. `Narrower` makes this form, `Widener` makes readings of it again; nothing is lost.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.errors import PipelineError
from nexus.telemetry.catalogue import HOST_METRICS, meaning_of
from nexus.telemetry.checks import NO_IDENTITY, NO_METRIC
from nexus.telemetry.combine import combine
from nexus.telemetry.identity import SERIES_COLUMNS, series_digest
from nexus.telemetry.reading import READING_SCHEMA
from nexus.telemetry.scalars import scalar

# What a row is. The context of a reading stands before it wherever rows are in order of
# (gpu_key, timestamp): it has no timestamp.
READING: Final = 0
CONTEXT: Final = 1
UNREADABLE: Final = 2  # a message that gave no reading, or a gap in the queue

TEXT_COLUMNS: Final = tuple(f.name for f in READING_SCHEMA if pa.types.is_string(f.type))
NUMBER_COLUMNS: Final = tuple(n for n in READING_SCHEMA.names if n not in TEXT_COLUMNS)

_CONTEXT_NUMBERS: Final = [
    pa.field("gpu_key", pa.int64()),  # sorts about as uuids do
    pa.field("series_a", pa.int64()),  # both halves of the hash of what tells series apart
    pa.field("series_b", pa.int64()),
    pa.field("context", pa.int64()),  # the hash of all text columns
]
_PLACE: Final = [
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("row", pa.int32()),  # of the reading in its message
]
NARROW_SCHEMA: Final = pa.schema(
    [
        *_CONTEXT_NUMBERS,
        *(pa.field(n, READING_SCHEMA.field(n).type) for n in NUMBER_COLUMNS),
        pa.field("low", pa.float64()),  # what the metric can be at all
        pa.field("high", pa.float64()),
        *_PLACE,
        pa.field("kind", pa.int8()),
        pa.field("fault", pa.string()),  # why it cannot be a reading, whatever its value
        pa.field("text", pa.binary()),  # a context as a JSON object, or a message as it came
    ]
)

_CONTEXTS_KEPT: Final = 200_000
_KEY_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class _Context:
    """What is worked out once for a context."""

    gpu_key: int
    series_a: int
    series_b: int
    context: int
    low: float
    high: float
    fault: str | None
    text: bytes


_known: dict[tuple[str, ...], _Context] = {}


class Narrower:
    """Makes the narrow form for one task, which hears of every context once."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def batches(
        self, table: pa.Table, partition: pa.Array, offset: pa.Array, row: pa.Array
    ) -> Iterator[pa.RecordBatch]:
        """Canonical readings with their places, as rows of contexts and rows of readings."""
        if not table.num_rows:
            return
        kinds = combine([table.column(name) for name in TEXT_COLUMNS])
        contexts = [_context_of(texts) for texts in kinds.rows()]
        new = [c for c in contexts if c.context not in self._told]
        if new:
            self._told.update(c.context for c in new)
            yield _context_rows(new)

        def spread(name: str) -> pa.Array:
            field = NARROW_SCHEMA.field(name)
            return pa.array([getattr(c, name) for c in contexts], field.type).take(kinds.codes)

        yield _batch(
            table.num_rows,
            {
                **{name: spread(name) for name in ("gpu_key", "series_a", "series_b", "context")},
                **{name: spread(name) for name in ("low", "high", "fault")},
                **{name: _whole(table.column(name)) for name in NUMBER_COLUMNS},
                "partition": partition,
                "offset": offset,
                "row": row,
                "kind": READING,
            },
        )


def unreadable(
    partitions: Sequence[int], offsets: Sequence[int], faults: Sequence[str], raw: Sequence[bytes]
) -> pa.RecordBatch:
    """Messages that gave no readings, in the narrow form."""
    count = len(faults)
    return _batch(
        count,
        {
            "gpu_key": pa.array(partitions, pa.int64()),
            **dict.fromkeys(("series_a", "series_b", "context"), 0),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "row": 0,
            "kind": UNREADABLE,
            "fault": pa.array(faults, pa.string()),
            "text": pa.array(raw, pa.binary()),
        },
    )


class Widener:
    """Makes readings of the narrow form; a context must have come before its readings."""

    def __init__(self) -> None:
        self._contexts: dict[int, bytes] = {}

    def learn(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take note of rows of contexts."""
        numbers, texts = (rows.column(name).to_pylist() for name in ("context", "text"))
        for number, text in zip(numbers, texts, strict=True):
            if self._contexts.setdefault(number, text) != text:
                raise PipelineError(
                    f"two contexts have the hash {number}: they cannot be told apart"
                )

    def texts(self, context: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
        """The context of each reading as the text of a JSON object."""
        codes = _dictionary(context)
        return pa.DictionaryArray.from_arrays(codes.indices, pa.array(self._told(codes)))

    def readings(self, rows: pa.Table) -> pa.Table:
        """Rows of readings as READING_SCHEMA, their text dictionary-encoded."""
        codes = _dictionary(rows.column("context"))
        told = [json.loads(text) for text in self._told(codes)]
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            name: rows.column(name) for name in NUMBER_COLUMNS
        }
        for name in TEXT_COLUMNS:
            distinct = pa.array([c[name] for c in told], pa.string()).dictionary_encode()
            indices = distinct.indices.take(codes.indices)
            columns[name] = pa.DictionaryArray.from_arrays(indices, distinct.dictionary)
        fields = [pa.field(n, columns[n].type, READING_SCHEMA.field(n).nullable) for n in columns]
        return pa.table(columns, schema=pa.schema(fields)).select(READING_SCHEMA.names)

    def _told(self, codes: pa.DictionaryArray) -> list[bytes]:
        numbers = codes.dictionary.to_pylist()
        try:
            return [self._contexts[number] for number in numbers]
        except KeyError as error:
            raise PipelineError(f"a reading names the context {error}, which never came") from None


def _context_of(texts: tuple[str, ...]) -> _Context:
    found = _known.get(texts)
    if found is None:
        if len(_known) >= _CONTEXTS_KEPT:  # pods come and go for as long as a worker lives
            _known.clear()
        found = _known[texts] = _made(texts)
    return found


def _made(texts: tuple[str, ...]) -> _Context:
    said = dict(zip(TEXT_COLUMNS, texts, strict=True))
    series = series_digest(tuple(said[name] for name in SERIES_COLUMNS))
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    meaning = meaning_of(said["source_metric"], said["unit"])
    return _Context(
        gpu_key=_gpu_key(said["uuid"]),
        series_a=int.from_bytes(series[:8], "little", signed=True),
        series_b=int.from_bytes(series[8:], "little", signed=True),
        context=int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True),
        low=meaning.low,
        high=meaning.high,
        fault=_fault(said) or meaning.problem or None,
        text=text,
    )


def _gpu_key(uuid: str) -> int:
    """The first bytes of what differs between uuids, as a number that sorts as they do."""
    name = uuid.partition("-")[2] if uuid[:4] in ("GPU-", "MIG-") else uuid
    start = name.encode()[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0")
    return int.from_bytes(start, "big") >> 1


def _fault(said: Mapping[str, str]) -> str:
    """Why no value could make this a reading: nobody can tell what it is of."""
    if not said["source_metric"]:
        return NO_METRIC
    has_own_uuid = said["uuid"] != f"{said['hostname']}/{said['gpu']}"
    of_host = said["metric"] in HOST_METRICS
    if has_own_uuid or (said["hostname"] and (said["gpu"] or of_host)):
        return ""
    return NO_IDENTITY


def _context_rows(contexts: Sequence[_Context]) -> pa.RecordBatch:
    names = ("gpu_key", "series_a", "series_b", "context", "text")
    columns: dict[str, Any] = {
        name: pa.array([getattr(c, name) for c in contexts], NARROW_SCHEMA.field(name).type)
        for name in names
    }
    return _batch(len(contexts), {**columns, "kind": CONTEXT})


def _batch(count: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """A batch of the narrow form: a plain number stands for a column, what is missing is null."""
    made = []
    for field in NARROW_SCHEMA:
        column = columns.get(field.name)
        if column is None:
            column = pa.nulls(count, field.type)
        elif isinstance(column, int):
            column = pa.repeat(scalar(column, field.type), count)
        made.append(column)
    return pa.record_batch(made, schema=NARROW_SCHEMA)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _dictionary(column: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    whole = _whole(column) if isinstance(column, pa.ChunkedArray) else column
    return pc.dictionary_encode(whole)
