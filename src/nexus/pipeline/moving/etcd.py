"""A store in etcd to be read and added to: keys of one reading each, in portions.

The documents of GPUs are kept with every portion, before its readings, as the sink does it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.etcd import Client, Keys, KeyValue, Put
from nexus.etcd.blocking import BlockingClient
from nexus.pipeline.moving.port import COPIED, Slice, Wait, day_of, start_of
from nexus.pipeline.sink.etcd_documents import keep_documents, news_of
from nexus.store.etcd.decoding import decoded
from nexus.store.etcd.documents import known_from
from nexus.store.etcd.faults import as_store_errors
from nexus.store.etcd.layout import data_keys, moment_us_of
from nexus.store.etcd.lock import EtcdWriterLock
from nexus.store.etcd.marks import Mark
from nexus.store.etcd.parts import told_first
from nexus.store.etcd.reading import Asked, Reader
from nexus.store.etcd.refused import refused_from, refused_items
from nexus.store.etcd.rows import reading_keys, reading_values
from nexus.store.etcd.url import EtcdStoreUrl
from nexus.store.etcd.writing import Item, put_many, write
from nexus.store.questions.spans import DAY, Stretch

APP: Final = "copy"
PORTION_ROWS: Final = 65_536
_NEWEST: Final = 0  # as a revision: readings never change, so each page may be of its own


class EtcdPlace:
    """See `Place`; its counts are of keys, and a GPU that moved may have two for a reading."""

    counts_exactly = False

    def __init__(self, store: EtcdStoreUrl) -> None:
        self.name = store.name
        self.store = store
        self.layout = store.layout
        self._client = BlockingClient(store.address.config())
        self.reader = Reader(self._client, str(store))

    def days(self, table: str) -> Mapping[str, int]:
        if table not in ("readings", "quarantine"):
            return {}
        paths = self._paths() if table == "readings" else {}
        places = [path for each in paths.values() for path in each]
        found: dict[str, int] = {}
        low: int | None = None
        while (first := self._first(table, places, low)) is not None:
            start = start_of(day_of(first))
            ranges = self._ranges(table, places, start, start + DAY)
            counts = self.reader.counted(ranges, _NEWEST)
            found[day_of(first)] = sum(count.keys for count in counts)
            low = start + DAY
        return found

    def rows(self, part: Slice) -> Iterator[pa.Table]:
        if part.table == "quarantine":
            for items in self.items([self.layout.quarantine(part.low, part.high)]):
                yield refused_from([item.value for item in items]).drop_columns(["raw_size"])
        elif part.table == "readings":
            for told in self.readings(part):
                yield decoded([item.value for item in told])

    def readings(self, part: Slice) -> Iterator[Sequence[KeyValue]]:
        """The keys and values of a slice's readings, each reading once."""
        paths = self._paths().values()
        stayed = [data_keys(each[0], part.low, part.high) for each in paths if len(each) == 1]
        yield from self.items(stayed)
        for each in paths:
            if len(each) > 1:  # the same reading may have been told under several paths
                moved = self.items([data_keys(path, part.low, part.high) for path in each])
                yield told_first(item for items in moved for item in items)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Readings never change: what comes meanwhile is all that can differ."""
        yield

    def faults(self, part: Slice) -> list[str]:
        """Readings that are not where their own words place them: nobody would find them."""
        if part.table != "readings":
            return []
        wrong = 0
        for items in self.readings(part):
            keys = reading_keys(self.layout, decoded([item.value for item in items]))
            found = pc.equal(keys, pa.array([item.key for item in items], pa.binary()))
            wrong += len(items) - pc.sum(found).as_py()
        return [f"{wrong:,} readings are under keys of others"] if wrong else []

    def fresh(self, part: Slice) -> list[Stretch]:
        return []

    @contextmanager
    def writer(self, owner: str, wait: Wait | None) -> Iterator[EtcdWriter]:
        lock = EtcdWriterLock(self.store, owner)
        try:
            lock.acquire(wait)
            yield EtcdWriter(lock)
        finally:
            lock.release()

    def close(self) -> None:
        self._client.close()

    def items(self, ranges: Sequence[Keys]) -> Iterator[list[KeyValue]]:
        """Everything in some ranges, however long it takes."""
        asked = [Asked(keys, PORTION_ROWS) for keys in ranges]
        for items in self.reader.items(asked, _NEWEST, clock=lambda: 0.0):
            if items:
                yield items

    def _paths(self) -> Mapping[str, tuple[str, ...]]:
        values = [item.value for items in self.items([self.layout.index]) for item in items]
        return known_from(values).paths

    def _first(self, table: str, paths: Sequence[str], low: int | None) -> int | None:
        """The time of the first row that is not before another."""
        counts = self.reader.counted(self._ranges(table, paths, low, None), _NEWEST)
        moments = [moment_us_of(count.first.key) for count in counts if count.first is not None]
        return min(moments, default=None)

    def _ranges(
        self, table: str, paths: Sequence[str], low: int | None, high: int | None
    ) -> list[Keys]:
        if table == "quarantine":
            return [self.layout.quarantine(low, high)]
        return [data_keys(path, low, high) for path in paths]


class EtcdWriter:
    """See `Writer`; who the GPUs are and their last readings are kept with every portion."""

    tables = COPIED
    portion_rows = PORTION_ROWS
    derives = True

    def __init__(self, lock: EtcdWriterLock) -> None:
        self._lock = lock
        self._layout = lock.store.layout

    def add(self, part: Slice, rows: pa.Table) -> pa.Table:
        with as_store_errors(self._lock.store):
            if part.table == "readings":
                news = news_of(rows)
                self._lock.client.run(
                    lambda client: keep_documents(client, self._lock.fence, self._layout, news)
                )
                keys, values = reading_keys(self._layout, rows), reading_values(rows)
                self._put(zip(keys.to_pylist(), values.to_pylist(), strict=True))
            else:
                # Things that are equal are numbered, from one again in every portion.
                salt = secrets.token_bytes(8)
                self._put(refused_items(self._layout, rows, salt))
        return rows.slice(0, 0)

    def settle(self, part: Slice) -> None:
        """Say that something was stored: whoever remembers answers goes by it."""
        key, now_us = self._layout.meta("batches", APP), time.time_ns() // 1000
        mark = Mark(0, now_us, 0, now_us).to_json()

        async def put(client: Client) -> int:
            return await write(client, self._lock.fence, [Put(key, mark)])

        with as_store_errors(self._lock.store):
            self._lock.client.run(put)

    def derive(self) -> None:
        """The documents were kept with every portion."""

    def _put(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        ordered = sorted(Item(key, value) for key, value in items)
        self._lock.client.run(lambda client: put_many(client, self._lock.fence, ordered))
