"""A store in etcd that can be asked, from any number of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from nexus.etcd.blocking import BlockingClient
from nexus.lake.errors import StoreError
from nexus.lake.url import StoreUrl
from nexus.store.errors import StoreAway
from nexus.store.etcd.asking import EtcdAsking
from nexus.store.etcd.contents import Contents
from nexus.store.etcd.index import Following, Index
from nexus.store.etcd.memory import Memory
from nexus.store.etcd.newest import LastReadings, Newest
from nexus.store.etcd.parts import Source
from nexus.store.etcd.reading import Reader
from nexus.store.etcd.snapshot import EtcdSnapshot
from nexus.store.etcd.url import EtcdStoreUrl
from nexus.store.questions.database import Database

FRESH_S: Final = 0.25  # between two looks at the index
STALE_S: Final = 2.0  # beyond which a question waits for the look that another has begun
TIMEOUT_S: Final = 5.0  # of one call to etcd, retries included
_NO_FILES: Final = StoreUrl("/")  # the database reads tables in memory alone


class EtcdStore:
    """See `Store` in the port."""

    def __init__(
        self, store: EtcdStoreUrl, *, unknown_after_s: float, clock: Callable[[], float]
    ) -> None:
        config = replace(store.address.config(), timeout_s=TIMEOUT_S)
        self.layout = store.layout
        self._unknown_after_s = unknown_after_s
        self._clock = clock
        self._client = BlockingClient(config)
        self._database = Database(_NO_FILES)
        self._reader = Reader(self._client, str(store))
        self._following = Following(self._reader, self.layout)
        self._readings = LastReadings(self._reader, self._database)
        self.contents = Contents(self._reader, self.layout, self._readings)
        self._memory = Memory(self._reader)
        self._turn = threading.Lock()
        self._index = Index()
        self._failed_at, self._failure = -1e9, ""
        self._closed = False

    def snapshot(self) -> EtcdSnapshot:
        if self._closed:
            raise StoreAway("the store was closed")
        return EtcdSnapshot(self, self._looked())

    def close(self) -> None:
        self._closed = True
        self._client.close()
        self._database.close()

    def asking(
        self, index: Index, metrics: tuple[str, ...], uuids: Collection[str] | None
    ) -> EtcdAsking:
        newest = Newest(self._readings, index, uuids)
        return EtcdAsking(
            self._database,
            newest,
            self._clock,
            self._unknown_after_s,
            Source(self._reader, self._memory, index),
            metrics,
        )

    def renewed(self) -> Index:
        with self._turn:
            return self._look()

    def _looked(self) -> Index:
        """An index that is fresh enough; one thread looks, and others need not wait for it."""
        began = time.monotonic()
        age = began - self._index.at
        if age < FRESH_S:
            return self._index
        if not self._turn.acquire(blocking=age > STALE_S):
            return self._index
        try:
            if self._failed_at > began:
                raise StoreAway(self._failure)  # the look that this one has waited for
            return self._look() if self._index.at < began - FRESH_S else self._index
        finally:
            self._turn.release()

    def _look(self) -> Index:
        try:
            self._index = self._following.look()
        except (StoreAway, StoreError) as error:
            self._failed_at, self._failure = time.monotonic(), str(error)
            raise StoreAway(str(error)) from error
        return self._index
