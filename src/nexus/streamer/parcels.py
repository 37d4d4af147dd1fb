"""From pieces of a source to messages: stamped, restamped, encoded, each for its partition.

Runs in a worker thread, on whole columns; a GPU's readings stay in order in one partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from nexus.queue.partitioners import Partitioner
from nexus.queue.port import Headers, Message
from nexus.streamer.checkpoint import Progress
from nexus.streamer.restamp import last_time_us, restamp
from nexus.streamer.sources.port import Rejected
from nexus.telemetry.arrow_codec import split_for_messages
from nexus.telemetry.codec import ARROW_TYPE, JSON_TYPE
from nexus.telemetry.json_codec import encode_json
from nexus.telemetry.reading import TIMESTAMP, conform, encoded

Encoding = Literal["arrow", "json"]

VERSION: Final = b"1"
_RAW_MAX: Final = 64 << 10  # a dead letter shows what a row was; a row can be a whole file
_TEXT_MAX: Final = 128 << 10  # of one reading, so that it fits any message
TOO_LARGE: Final = "reading is too large"
# One reading a message: every header more would cost as much as a tenth of the reading.
_JSON_HEADERS: Final[Headers] = (("content-type", JSON_TYPE.encode()),)
_VALUE: Final = itemgetter(0)
# A message for each reading must not cost a call in Python for each.
_message: Final[Callable[[tuple[object, ...]], Message]] = partial(tuple.__new__, Message)


@dataclass(slots=True)
class Piece:
    """Some readings of one stream that may go now, and where to go on once they are safe."""

    table: pa.Table
    progress: Progress | None = None
    rejected: Sequence[Rejected] = ()
    shift_us: int | None = None  # what restamping adds


@dataclass(slots=True, eq=False)
class Parcel:
    """Messages that are published, stored and acknowledged together."""

    messages: list[Message]
    readings: int
    size: int
    progress: list[Progress] = field(default_factory=list)
    last_stamp_us: int = 0
    oversized: int = 0  # readings that fit no message, among the dead letters
    made_at: float = 0.0  # by the monotonic clock: how long it has been waiting
    settled: bool = False
    spooled_to: int | None = None  # the spool's offset behind it, once it is there

    @property
    def safe(self) -> bool:
        """Whether a crash of ours can no longer lose it."""
        return self.settled or self.spooled_to is not None


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the streamer adds to every reading, and to every message."""

    cluster: str
    source: str


class Packer:
    """Makes parcels; one thread at a time."""

    def __init__(
        self,
        encoding: Encoding,
        partitioner: Partitioner,
        stamp: Stamp,
        *,
        rows_max: int,
        now_us: Callable[[], int],
        now_s: Callable[[], float],
    ) -> None:
        self.encoding, self._partitioner, self._stamp = encoding, partitioner, stamp
        self._rows_max, self._now_us, self._now_s = rows_max, now_us, now_s
        self._common: Headers = (("source", stamp.source.encode()), ("version", VERSION))

    def pack(self, pieces: Sequence[Piece], partitions: int) -> Parcel:
        """One parcel of all the pieces, in their order."""
        now_us = self._now_us()
        tables = [_shifted(piece) for piece in pieces if piece.table.num_rows]
        messages = [self._dead_letter(r, now_us) for piece in pieces for r in piece.rejected]
        readings, last_us, oversized = 0, 0, 0
        if tables:
            table, large = _without_oversized(self._stamped(tables, now_us))
            messages += [self._dead_letter(row, now_us) for row in large]
            readings, oversized = table.num_rows, len(large)
        if readings:
            last_us = last_time_us(table) if pieces[-1].shift_us is not None else 0
            make = self._arrow if self.encoding == "arrow" else self._json
            messages += make(table, partitions, now_us // 1000)
        if self.encoding == "json":
            # The texts are Python's now; what Arrow made them from would stay with its allocator.
            pa.default_memory_pool().release_unused()
        size = sum(map(len, map(_VALUE, messages)))
        progress = [piece.progress for piece in pieces if piece.progress is not None]
        return Parcel(messages, readings, size, progress, last_us, oversized, self._now_s())

    def _stamped(self, tables: list[pa.Table], now_us: int) -> pa.Table:
        whole = pa.concat_tables([_comparable(t, self._stamp.cluster, now_us) for t in tables])
        return whole.unify_dictionaries().combine_chunks()

    def _arrow(self, table: pa.Table, partitions: int, now_ms: int) -> Iterator[Message]:
        for partition, share in self._shares(table, partitions):
            for value, count in split_for_messages(share, readings=self._rows_max):
                headers = (
                    ("content-type", ARROW_TYPE.encode()),
                    ("count", str(count).encode()),
                    *self._common,
                )
                chosen = self._turn(partitions) if partition is None else partition
                yield Message(value, None, headers, now_ms, chosen)

    def _shares(self, table: pa.Table, partitions: int) -> Iterator[tuple[int | None, pa.Table]]:
        """The table by partition, each share in its old order."""
        if not self._partitioner.by_key:
            yield None, table
            return
        chosen = self._chosen(gpu_keys(table), partitions)
        if len(chosen.dictionary) == 1:
            yield chosen.dictionary[0].as_py(), table
            return
        order = pc.array_sort_indices(chosen.indices)
        ordered = table.take(order)
        at = 0
        counts = {c["values"]: c["counts"] for c in pc.value_counts(chosen.indices).to_pylist()}
        for index in sorted(counts):
            yield chosen.dictionary[index].as_py(), ordered.slice(at, counts[index])
            at += counts[index]

    def _chosen(self, gpus: pa.DictionaryArray, partitions: int) -> pa.DictionaryArray:
        """Each row's partition, from one choice for each GPU."""
        choose = self._partitioner.partition
        by_gpu = [choose(gpu, partitions) for gpu in gpus.dictionary.to_pylist()]
        distinct = sorted(set(by_gpu))
        place = {partition: at for at, partition in enumerate(distinct)}
        places = pa.array([place[partition] for partition in by_gpu], pa.int32())
        return pa.DictionaryArray.from_arrays(
            places.take(gpus.indices), pa.array(distinct, pa.int32())
        )

    def _turn(self, partitions: int) -> int:
        return self._partitioner.partition("", partitions)

    def _json(self, table: pa.Table, partitions: int, now_ms: int) -> Iterator[Message]:
        gpus = gpu_keys(table)
        names = gpus.dictionary.to_pylist()
        where = gpus.indices.to_pylist()
        keys = [name.encode() for name in names]
        if self._partitioner.by_key:
            chosen = [self._partitioner.partition(name, partitions) for name in names]
            targets: Iterable[int] = map(chosen.__getitem__, where)
        else:
            targets = [self._turn(partitions) for _ in where]
        fields = zip(
            encode_json(table),
            map(keys.__getitem__, where),
            repeat(_JSON_HEADERS),
            repeat(now_ms),
            targets,
            repeat(False),
            strict=False,
        )
        return map(_message, fields)

    def _dead_letter(self, row: Rejected, now_us: int) -> Message:
        headers = (
            ("kind", b"row"),
            ("reason", row.reason.encode()),
            ("where", row.where.encode("utf-8", "replace")),
            *self._common,
        )
        return Message(row.raw[:_RAW_MAX], None, headers, now_us // 1000, dead=True)


def gpu_keys(table: pa.Table) -> pa.DictionaryArray:
    """What tells a reading's GPU: its uuid, or its host and index where it has none."""
    uuids = encoded(table.column("uuid"))
    if not pc.any(pc.equal(uuids.dictionary, "")).as_py():
        return uuids
    text = uuids.cast(pa.string())
    host, index = (encoded(table.column(name)).cast(pa.string()) for name in ("hostname", "gpu"))
    place = pc.binary_join_element_wise(host, index, "/")
    return encoded(pc.if_else(pc.equal(text, ""), place, text))


def _without_oversized(table: pa.Table) -> tuple[pa.Table, list[Rejected]]:
    """The readings that fit a message, and the few that never will."""
    texts = [c.chunk(0) for c in table.columns if pa.types.is_dictionary(c.type) and c.num_chunks]
    lengths = [pc.binary_length(text.dictionary) for text in texts]
    if sum([pc.max(each).as_py() or 0 for each in lengths]) <= _TEXT_MAX:
        return table, []
    total = lengths[0].take(texts[0].indices)
    for length, text in zip(lengths[1:], texts[1:], strict=True):
        total = pc.add(total, length.take(text.indices))
    is_large = pc.greater(total, _TEXT_MAX)
    large = [
        Rejected(
            TOO_LARGE,
            f"{row['uuid']} {row['source_metric']} {row['timestamp'].isoformat()}"[:1000],
            row["labels"].encode()[:_RAW_MAX],
        )
        for row in table.filter(is_large).to_pylist()
    ]
    return table.filter(pc.invert(is_large)), large


def _shifted(piece: Piece) -> pa.Table:
    return piece.table if piece.shift_us is None else restamp(piece.table, piece.shift_us)


def _comparable(table: pa.Table, cluster: str, now_us: int) -> pa.Table:
    """All of SOURCE_SCHEMA, text encoded, `ingested` now, and `cluster` ours where none is."""
    ingested = pa.repeat(pa.scalar(now_us, TIMESTAMP), table.num_rows)
    table = _with(table, "ingested", ingested)
    table = _with(table, "cluster", _cluster(table, cluster))
    table = conform(table)
    for field_ in table.schema:
        if pa.types.is_string(field_.type):
            table = _with(table, field_.name, encoded(table.column(field_.name)))
    return table


def _cluster(table: pa.Table, ours: str) -> pa.DictionaryArray:
    indices = pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)
    if "cluster" not in table.column_names:
        return pa.DictionaryArray.from_arrays(indices, pa.array([ours]))
    said = encoded(table.column("cluster"))
    names = [name or ours for name in said.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(said.indices, pa.array(names, pa.string()))


def _with(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    at = table.schema.get_field_index(name)
    if at < 0:
        return table.append_column(name, column)
    return table.set_column(at, name, column)
