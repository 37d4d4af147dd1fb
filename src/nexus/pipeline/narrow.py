"""The form in which readings cross Spark: numbers, and the number of their context.

Text is dear on the way through the JVM and hardly changes from reading to reading. So the text
columns of a reading cross beside it (see `contexts`), in rows of their own that come first.
`Narrower` makes this form, `Widener` makes readings of it again; nothing is lost.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.contexts import LANES, Learned, Numbers, Teller, hashes, lanes
from nexus.telemetry.catalogue import HOST_METRICS, meaning_of
from nexus.telemetry.checks import NO_IDENTITY, NO_METRIC
from nexus.telemetry.combine import combine
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import READING_SCHEMA, encoded, in_one_piece
from nexus.telemetry.scalars import EMPTY, scalar

# What a row is.
READING: Final = 0
CONTEXT: Final = 1  # texts of contexts, before all readings in the order of gpu_key
UNREADABLE: Final = 2  # a message that gave no reading, or a gap in the queue
ACK: Final = 3  # all rows of some messages have come; text names their keys

TEXT_COLUMNS: Final = tuple(f.name for f in READING_SCHEMA if pa.types.is_string(f.type))
NUMBER_COLUMNS: Final = tuple(n for n in READING_SCHEMA.names if n not in TEXT_COLUMNS)

NARROW_SCHEMA: Final = pa.schema(
    [
        pa.field("lane", pa.int32()),  # by which rows are dealt to tasks, contexts with them
        pa.field("gpu_key", pa.int64()),  # sorts about as uuids do
        pa.field("series_a", pa.int64()),  # both halves of the hash of what tells series apart
        pa.field("series_b", pa.int64()),
        pa.field("context", pa.int64()),
        *(pa.field(n, READING_SCHEMA.field(n).type) for n in NUMBER_COLUMNS),
        pa.field("low", pa.float64()),  # what the metric can be at all
        pa.field("high", pa.float64()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("row", pa.int32()),  # of the reading in its message
        pa.field("kind", pa.int8()),
        pa.field("fault", pa.string()),  # why it cannot be a reading, whatever its value
        pa.field("text", pa.binary()),  # contexts, or a message as it came
    ]
)

_BESIDE_SERIES: Final = tuple(name for name in TEXT_COLUMNS if name not in SERIES_COLUMNS)
_BEFORE_ALL: Final = -(1 << 63)
_KEY_BYTES: Final = 8


class Narrower:
    """Makes the narrow form for one task, which hears of every context once."""

    def __init__(self) -> None:
        self._teller = Teller(TEXT_COLUMNS)

    def batches(
        self, table: pa.Table, partition: pa.Array, offset: pa.Array, row: pa.Array
    ) -> Iterator[pa.RecordBatch]:
        """Canonical readings with their places, as rows of contexts and rows of readings."""
        if not table.num_rows:
            return
        lane, series = lanes(table.column("uuid")), series_numbers(table)
        contexts = context_numbers(table, series)
        if told := list(self._teller.new(table, contexts, lane)):
            yield _context_rows(told)
        low, high, fault = _judged(table)
        yield _batch(
            table.num_rows,
            {
                "lane": pa.array(lane),
                "gpu_key": pa.array(_gpu_keys(table.column("uuid"))),
                "series_a": pa.array(series[0]),
                "series_b": pa.array(series[1]),
                "context": pa.array(contexts[0]),
                **{name: in_one_piece(table.column(name)) for name in NUMBER_COLUMNS},
                "low": low,
                "high": high,
                "fault": fault,
                "partition": partition,
                "offset": offset,
                "row": row,
                "kind": READING,
            },
        )


def series_numbers(table: pa.Table) -> tuple[Numbers, Numbers]:
    """Both halves of the number of each reading's series."""
    return hashes(table, SERIES_COLUMNS)


def context_numbers(table: pa.Table, series: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    """Both halves of the number of each reading's context, given those of its series."""
    return hashes(table, _BESIDE_SERIES, series)


def unreadable(
    partitions: Sequence[int], offsets: Sequence[int], faults: Sequence[str], raw: Sequence[bytes]
) -> pa.RecordBatch:
    """Messages that gave no readings, in the narrow form."""
    return _batch(
        len(faults),
        {
            "lane": pa.array([partition % LANES for partition in partitions], pa.int32()),
            **dict.fromkeys(("gpu_key", "series_a", "series_b", "context"), 0),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "row": 0,
            "kind": UNREADABLE,
            "fault": pa.array(faults, pa.string()),
            "text": pa.array(raw, pa.binary()),
        },
    )


def acknowledgement(partition: int, revision: int, text: bytes) -> pa.RecordBatch:
    """The row that ends the rows of some messages."""
    return _batch(
        1,
        {
            "lane": partition % LANES,
            **dict.fromkeys(("gpu_key", "series_a", "series_b", "context"), 0),
            "partition": partition,
            "offset": revision,
            "row": 0,
            "kind": ACK,
            "text": pa.array([text], pa.binary()),
        },
    )


class Widener:
    """Makes readings of the narrow form; a context must have come before its readings."""

    def __init__(self) -> None:
        self._learned = Learned()

    def learn(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take note of rows of contexts."""
        self._learned.learn(rows.column("text").to_pylist())

    def readings(self, rows: pa.Table) -> pa.Table:
        """Rows of readings as READING_SCHEMA, their text dictionary-encoded."""
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            **{name: rows.column(name) for name in NUMBER_COLUMNS},
            **self._learned.columns(rows.column("context"), TEXT_COLUMNS),
        }
        fields = [field.with_type(columns[field.name].type) for field in READING_SCHEMA]
        return pa.table(columns).select(READING_SCHEMA.names).cast(pa.schema(fields))

    def objects(self, rows: pa.Table) -> pa.DictionaryArray:
        """The context of each reading as the text of a JSON object."""
        distinct = pc.dictionary_encode(in_one_piece(rows.column("context")))
        said = self._learned.columns(distinct.dictionary, TEXT_COLUMNS)
        texts = zip(*(said[name].to_pylist() for name in TEXT_COLUMNS), strict=True)
        made = [_object(dict(zip(TEXT_COLUMNS, text, strict=True))) for text in texts]
        return pa.DictionaryArray.from_arrays(distinct.indices, pa.array(made, pa.string()))


def _object(said: Mapping[str, str]) -> str:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def _judged(table: pa.Table) -> tuple[pa.Array, pa.Array, pa.Array]:
    """What each reading's metric can be at all, and why the reading cannot be, if so."""
    kinds = combine([table.column("source_metric"), table.column("unit")])
    meanings = [meaning_of(*kind) for kind in kinds.rows()]
    faults = [
        m.problem or None if name else NO_METRIC
        for m, (name, _) in zip(meanings, kinds.rows(), strict=True)
    ]
    bounds = [
        pa.array(numbers, pa.float64()).take(kinds.codes)
        for numbers in ([m.low for m in meanings], [m.high for m in meanings])
    ]
    fault = pa.array(faults, pa.string()).take(kinds.codes)
    nameless = _nameless(table)
    if nameless is not None:
        fault = pc.if_else(nameless, scalar(NO_IDENTITY, pa.string()), fault)
    return bounds[0], bounds[1], fault


def _nameless(table: pa.Table) -> pa.Array | None:
    """Which readings are of nobody knows what; None when all uuids are of their own."""
    uuid, metric = encoded(table.column("uuid")), encoded(table.column("metric"))
    if not pc.any(pc.match_substring(uuid.dictionary, "/")).as_py():
        return None
    host, gpu = (_plain(table.column(name)) for name in ("hostname", "gpu"))
    made_up = pc.equal(
        _plain(table.column("uuid")),
        pc.binary_join_element_wise(host, gpu, scalar("/", pa.string())),
    )
    of_host = pc.is_in(metric.dictionary, pa.array(sorted(HOST_METRICS))).take(metric.indices)
    no_gpu = pc.and_not(pc.equal(gpu, EMPTY), of_host)
    return pc.and_(made_up, pc.or_(pc.equal(host, EMPTY), no_gpu))


def _gpu_keys(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    uuid = encoded(column)
    keys = np.array([_gpu_key(text) for text in uuid.dictionary.to_pylist()], np.int64)
    found: npt.NDArray[np.int64] = keys[uuid.indices.to_numpy(zero_copy_only=False)]
    return found


@lru_cache(maxsize=1 << 16)
def _gpu_key(uuid: str) -> int:
    """The first bytes of what differs between uuids, as a number that sorts as they do."""
    name = uuid.partition("-")[2] if uuid[:4] in ("GPU-", "MIG-") else uuid
    start = name.encode()[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0")
    return int.from_bytes(start, "big") >> 1


def _context_rows(told: Sequence[tuple[int, bytes]]) -> pa.RecordBatch:
    columns = {
        "lane": pa.array([lane for lane, _ in told], pa.int32()),
        "gpu_key": _BEFORE_ALL,
        "kind": CONTEXT,
        "text": pa.array([blob for _, blob in told], pa.binary()),
    }
    return _batch(len(told), columns)


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


def _plain(column: pa.ChunkedArray) -> pa.Array:
    whole = in_one_piece(column)
    return whole.cast(pa.string()) if pa.types.is_dictionary(whole.type) else whole
