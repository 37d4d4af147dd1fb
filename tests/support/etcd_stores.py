"""Stores in etcd with readings in them, put there as a writing task of the pipeline does it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from nexus.pipeline.sink.etcd_documents import keep_documents, news_of
from nexus.store.etcd.lock import EtcdWriterLock
from nexus.store.etcd.refused import refused_items
from nexus.store.etcd.rows import reading_keys, reading_values
from nexus.store.etcd.url import parse_etcd_store_url
from nexus.store.etcd.writing import Item, put_many
from nexus.store.opening import open_store
from nexus.store.port import Store
from support.etcd import EtcdMember


class EtcdFilled:
    """A store under a prefix of its own, which nobody else writes to."""

    def __init__(self, member: EtcdMember, prefix: str) -> None:
        self.store = parse_etcd_store_url(f"etcd://{member.endpoint}{prefix}")
        self.layout = self.store.layout
        self.batches = 0
        self._lock = EtcdWriterLock(self.store, "test")
        self.client = self._lock.client

    def __enter__(self) -> EtcdFilled:
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def url(self) -> str:
        return str(self.store)

    def add(self, rows: pa.Table) -> None:
        """Store readings as one batch."""
        news = news_of(rows)
        self.client.run(lambda c: keep_documents(c, self._lock.fence, self.layout, news))
        keys, values = reading_keys(self.layout, rows), reading_values(rows)
        self._put(zip(keys.to_pylist(), values.to_pylist(), strict=True))
        self.batches += 1
        mark = {"number": self.batches, "at_us": self.batches, "begun": 0, "begun_us": 0}
        self.client.put(self.layout.meta("batches", "test"), json.dumps(mark).encode())

    def refuse(self, rows: pa.Table) -> None:
        """Store rows of the table `quarantine`."""
        self._put(refused_items(self.layout, rows.drop_columns(["day"])))

    def _put(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        ordered = sorted(Item(key, value) for key, value in items)
        self.client.run(lambda c: put_many(c, self._lock.fence, ordered))


@contextmanager
def opened_at(url: str, **how: Any) -> Iterator[Store]:
    """A store, to be asked."""
    store = open_store(url, **how)
    try:
        yield store
    finally:
        store.close()
