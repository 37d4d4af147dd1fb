"""A store in etcd as the collector has it: its lock, its sink, and what keeps it small."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyspark.sql import SparkSession

from nexus.etcd import Client, Fence
from nexus.pipeline.collector.stores import Chore
from nexus.pipeline.sink.etcd_sink import EtcdSink
from nexus.pipeline.sink.etcd_writer import Taking
from nexus.pipeline.sink.port import Sink
from nexus.queue.errors import QueueAway
from nexus.queue.etcd.compaction import Compactor
from nexus.queue.url import EtcdUrl, QueueUrl
from nexus.settings.collector import CollectorSection
from nexus.store.etcd.faults import as_store_errors
from nexus.store.etcd.lock import EtcdWriterLock
from nexus.store.etcd.retention import Removed, sweep
from nexus.store.etcd.url import EtcdStoreUrl

UPKEEP_S: Final = 10.0
_SWEEP_S: Final = 60.0
_SHARE: Final = 20  # of the time, at most, that sweeping takes


class EtcdStore:
    """A store in etcd, for the life of one collector."""

    def __init__(self, place: EtcdStoreUrl, own: CollectorSection) -> None:
        self.place = place
        self.url = place.name
        self.lock = EtcdWriterLock(place, own.name)
        self._queue: EtcdUrl | None = None  # whose messages are taken out by the sink

    def acquire(self, wait: Callable[[str], None] | None) -> None:
        self.lock.acquire(wait)

    def lost(self) -> bool:
        return self.lock.lost()

    def take_up(self, changed: CollectorSection) -> None:
        """Nothing: how long readings are kept is in the address."""

    def wants(self, queue: QueueUrl, *, alone: bool) -> Mapping[str, str]:
        """Acknowledgements, where one transaction reaches queue and store, and no other store."""
        shared = isinstance(queue, EtcdUrl) and self.place.shares_etcd_with(queue.address)
        self._queue = queue if isinstance(queue, EtcdUrl) and shared and alone else None
        return {} if self._queue is None else {"acks": "true"}

    def sink(self, spark: SparkSession, token: Callable[[], Fence | None] | None = None) -> Sink:
        queue = self._queue
        if queue is None or token is None:
            return EtcdSink(spark, self.lock)

        def taking() -> Taking:
            fence = token()
            if fence is None:
                raise QueueAway(f"queue {queue}: this collector does not lead now")
            return Taking(queue, fence)

        return EtcdSink(spark, self.lock, taking)

    def chores(self, spark: SparkSession) -> Sequence[Chore]:
        return [Chore("maintain", UPKEEP_S, UPKEEP_S, Upkeep(self.lock).run)]

    def release(self) -> None:
        self.lock.release()


class Upkeep:
    """Removes readings whose time is up, and has etcd forget its history."""

    def __init__(self, lock: EtcdWriterLock) -> None:
        self._lock = lock
        self._compactor: Compactor | None = None
        self._due = 0.0
        self._removed = Removed(0, 0)

    def run(self, stopped: Callable[[], bool], *, drain: bool) -> tuple[bool, Mapping[str, object]]:
        """See `Work`."""
        with as_store_errors(self._lock.store):
            self._lock.client.run(self._compact)
            begun = time.monotonic()
            if begun >= self._due:
                self._lock.client.run(self._sweep)
                took_s = time.monotonic() - begun
                self._due = begun + max(_SWEEP_S, _SHARE * took_s)
        told = {"readings_removed": self._removed.readings}
        return False, {**told, "quarantine_removed": self._removed.quarantined}

    async def _sweep(self, client: Client) -> None:
        place, now_us = self._lock.store, time.time_ns() // 1000
        keep_us = place.retention_ms * 1000
        done = await sweep(client, place.layout, self._lock.fence, now_us, keep_us)
        self._removed = Removed(*(a + b for a, b in zip(self._removed, done, strict=True)))

    async def _compact(self, client: Client) -> None:
        if self._compactor is None:
            self._compactor = Compactor(client, self._lock.store.layout.meta("writer"))
        await self._compactor.step()
