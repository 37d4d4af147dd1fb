"""Rows as they come to a task, as what is put into a store in etcd: chunks of keys and values.

Without acknowledgements a portion of rows is one chunk. With them, a chunk ends with the row that
names its messages, and the rows of one never mix with another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.narrow import ACK, CONTEXT, READING, Widener
from nexus.pipeline.order import PLACE
from nexus.pipeline.sink.etcd_acks import Ack, ack_of
from nexus.pipeline.sink.refused import quarantine_rows
from nexus.store.etcd.layout import StoreLayout
from nexus.store.etcd.refused import refused_items
from nexus.store.etcd.rows import reading_keys, reading_values
from nexus.store.etcd.writing import Item
from nexus.telemetry.scalars import scalar

PORTION_ROWS: Final = 65_536  # memory is bounded by this, not by the batch

_Numbers = npt.NDArray[np.int64]


class Chunk(NamedTuple):
    """What is put together, sorted by key, and the messages that it came from."""

    readings: Sequence[Item]
    refused: Sequence[Item]
    copies: int  # of readings in the same chunk
    ack: Ack | None


class Portion(NamedTuple):
    """Readings, and the chunks that they are put in."""

    readings: pa.Table
    chunks: Sequence[Chunk]


def gathered(batches: Iterable[pa.RecordBatch], *, has_acks: bool) -> Iterator[pa.Table]:
    """The rows in portions; where there are acknowledgements, each ends with one."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= PORTION_ROWS:
            rows = pa.Table.from_batches(held)
            end = _after_last_ack(rows) if has_acks else rows.num_rows
            if end:
                yield rows.slice(0, end)
            held, count = rows.slice(end).to_batches(), rows.num_rows - end
    if count:
        yield pa.Table.from_batches(held)


@dataclass
class Chunker:
    """Makes portions of the rows of one task, which come in order; learns contexts on the way."""

    layout: StoreLayout
    origin: str
    refused_us: int
    has_acks: bool

    def __post_init__(self) -> None:
        self._widener = Widener()

    def portion(self, rows: pa.Table) -> Portion:
        """What these rows come to."""
        kind, refusal = rows.column("kind"), rows.column("refusal")
        self._widener.learn(rows.filter(pc.equal(kind, scalar(CONTEXT, pa.int8()))))
        chunk = _chunk_numbers(kind)
        is_refused = pc.is_valid(refusal)
        is_good = pc.and_not(pc.equal(kind, scalar(READING, pa.int8())), is_refused)
        good = rows.filter(is_good)
        readings = self._widener.readings(good)
        acks = _acks(rows, chunk) if self.has_acks else [None]
        refused = self._refused(rows.filter(is_refused), _where(chunk, is_refused), acks)
        found = self._good(readings, good, _where(chunk, is_good), len(acks))
        chunks = [
            Chunk(items, refused.get(number, ()), copies, ack)
            for number, ((items, copies), ack) in enumerate(zip(found, acks, strict=True))
        ]
        return Portion(readings, chunks)

    def _good(
        self, readings: pa.Table, rows: pa.Table, chunk: _Numbers, count: int
    ) -> list[tuple[list[Item], int]]:
        """For each chunk its readings, of copies the first, and how many copies there were."""
        keys = reading_keys(self.layout, readings)
        by: dict[str, pa.Array | pa.ChunkedArray] = {"chunk": pa.array(chunk), "key": keys}
        if self.has_acks:
            by |= {name: rows.column(name) for name in ("ingested", *PLACE)}
        order = pc.sort_indices(pa.table(by), [(name, "ascending") for name in by])
        keys, chunk = keys.take(order), chunk[order.to_numpy()]
        is_copy = np.zeros(len(keys), np.bool_)
        same = pc.equal(keys.slice(1), keys.slice(0, max(len(keys) - 1, 0)))
        is_copy[1:] = same.to_numpy(zero_copy_only=False) & (np.diff(chunk) == 0)
        kept = pa.array(~is_copy)
        values = reading_values(readings).take(order).filter(kept).to_pylist()
        items = list(map(Item, keys.filter(kept).to_pylist(), values))
        ends = np.searchsorted(chunk[~is_copy], np.arange(count), "right").tolist()
        copies = np.bincount(chunk[is_copy], minlength=count).tolist()
        starts = [0, *ends[:-1]]
        return [(items[a:b], n) for a, b, n in zip(starts, ends, copies, strict=True)]

    def _refused(
        self, rows: pa.Table, chunk: _Numbers, acks: Sequence[Ack | None]
    ) -> dict[int, list[Item]]:
        """For each chunk that has any, what was refused."""
        found: dict[int, list[Item]] = {}
        for number in np.unique(chunk).tolist():
            some = rows.filter(pa.array(chunk == number))
            table = quarantine_rows(some, self._widener, self.origin, self.refused_us)
            ack = acks[number]
            salt = b"" if ack is None else ack.keys[0]
            items = refused_items(self.layout, table, salt)
            found[number] = sorted(Item(key, value) for key, value in items)
        return found


def _chunk_numbers(kind: pa.ChunkedArray) -> _Numbers:
    """For each row how many acknowledgements come before it."""
    is_ack = _is_ack(kind)
    numbers: _Numbers = np.cumsum(is_ack) - is_ack
    return numbers


def _is_ack(kind: pa.ChunkedArray) -> _Numbers:
    found: _Numbers = (kind.to_numpy() == ACK).astype(np.int64)
    return found


def _after_last_ack(rows: pa.Table) -> int:
    places = np.flatnonzero(_is_ack(rows.column("kind")))
    return int(places[-1]) + 1 if len(places) else 0


def _where(chunk: _Numbers, chosen: pa.ChunkedArray) -> _Numbers:
    found: _Numbers = chunk[chosen.to_numpy()]
    return found


def _acks(rows: pa.Table, chunk: _Numbers) -> list[Ack]:
    """The messages of each chunk, and between which offsets its rows stand."""
    kind, offset = rows.column("kind").to_numpy(), rows.column("offset").fill_null(0).to_numpy()
    texts = rows.filter(pa.array(kind == ACK)).column("text").to_pylist()
    stands = (kind != ACK) & (kind != CONTEXT)
    low = np.full(len(texts), np.iinfo(np.int64).max)
    high = np.zeros(len(texts), np.int64)
    np.minimum.at(low, chunk[stands], offset[stands])
    np.maximum.at(high, chunk[stands], offset[stands])
    return [
        ack_of(text, (a, b) if b else (0, 0))
        for text, a, b in zip(texts, low.tolist(), high.tolist(), strict=True)
    ]
