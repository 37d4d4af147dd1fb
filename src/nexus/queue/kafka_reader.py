"""Reads ranges of a Kafka topic's partitions, ours or any cluster's, the same each time.

It reads what is committed, joins no group and creates nothing. Whatever the cluster goes through
meanwhile, a range is given once, whole and in order, or an error says why it cannot be.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer

from nexus.queue.errors import TopicMissing
from nexus.queue.kafka_client import consumer_of
from nexus.queue.kafka_commit import KafkaCommitter
from nexus.queue.kafka_offsets import offsets_of, partitions_of
from nexus.queue.kafka_range import KafkaRange
from nexus.queue.kafka_sample import samples
from nexus.queue.port import Batch, Bounds, Received
from nexus.queue.url import KafkaUrl

_IDLE_MAX: Final = 2
# For a look at single messages: as little as the cluster will send, and from anywhere.
_SPARING: Final[Mapping[str, Any]] = {
    "max.partition.fetch.bytes": 1024,
    "fetch.max.bytes": 1 << 20,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1024,
    "auto.offset.reset": "earliest",
}


class KafkaReader:
    """One topic. Any thread may use it; `close` when done."""

    def __init__(
        self, url: KafkaUrl, *, client: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> None:
        self.url = url
        self._client = dict(client or {})
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._idle: dict[str, list[Consumer]] = {}
        self._is_closed = False
        self._committer = KafkaCommitter(url, self._client)

    def partitions(self) -> Sequence[int]:
        with self._borrowed() as consumer:
            return partitions_of(consumer, self.url, self._timeout_s)

    def bounds(self, partitions: Sequence[int] | None = None) -> dict[int, Bounds]:
        with self._borrowed() as consumer:
            wanted = self._known(consumer, partitions)
            # The beginning first: it may move on meanwhile, but never beyond the end.
            first = offsets_of(consumer, self.url, wanted, OFFSET_BEGINNING, self._timeout_s)
            last = offsets_of(consumer, self.url, wanted, OFFSET_END, self._timeout_s)
        return {p: Bounds(first[p], max(first[p], last[p])) for p in wanted}

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        with self._borrowed() as consumer:
            wanted = self._known(consumer, None)
            # The ends first: what comes meanwhile is not to be passed over.
            last = offsets_of(consumer, self.url, wanted, OFFSET_END, self._timeout_s)
            when = max(timestamp_ms, 0)
            found = offsets_of(consumer, self.url, wanted, when, self._timeout_s)
        return {p: found[p] if found[p] >= 0 else last[p] for p in wanted}

    def read(self, partition: int, start: int, end: int) -> Iterator[Batch]:
        if start >= end:
            return
        with self._borrowed() as consumer:
            timeout_s = self._timeout_s
            wanted = KafkaRange(consumer, self.url, partition, start, end, timeout_s=timeout_s)
            try:
                yield from wanted.batches()
            finally:
                consumer.unassign()

    def sample(self, partition: int, offset: int) -> Received | None:
        return self.samples({partition: offset}).get(partition)

    def samples(self, offsets: Mapping[int, int]) -> dict[int, Received]:
        if not offsets:
            return {}
        with self._borrowed("sample", _SPARING) as consumer:
            try:
                return samples(consumer, self.url, offsets, self._timeout_s)
            finally:
                consumer.unassign()

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        if offsets:
            self._committer.commit(group, offsets, self._timeout_s)

    def committed(self, group: str) -> dict[int, int]:
        """How far a group has come, by partition; those of which it never told are left out."""
        return self._committer.committed(group, self._timeout_s)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, {}
        for consumers in idle.values():
            for consumer in consumers:
                consumer.close()
        self._committer.close()

    def _known(self, consumer: Consumer, partitions: Sequence[int] | None) -> Sequence[int]:
        known = partitions_of(consumer, self.url, self._timeout_s)
        absent = set(partitions or ()) - set(known)
        if absent:
            raise TopicMissing(
                f"queue {self.url}: there is no partition {min(absent)}; it has {len(known)}"
            )
        return known if partitions is None else partitions

    @contextmanager
    def _borrowed(
        self, purpose: str = "", settings: Mapping[str, Any] | None = None
    ) -> Iterator[Consumer]:
        """A consumer for one use; connections outlive it, so the next use need not make them."""
        with self._lock:
            idle = self._idle.get(purpose)
            consumer = idle.pop() if idle else None
        if consumer is None:
            consumer = consumer_of(self.url, self._client, settings)
        try:
            yield consumer
        finally:
            self._give_back(purpose, consumer)

    def _give_back(self, purpose: str, consumer: Consumer) -> None:
        with self._lock:
            idle = self._idle.setdefault(purpose, [])
            is_kept = not self._is_closed and len(idle) < _IDLE_MAX
            if is_kept:
                idle.append(consumer)
        if not is_kept:
            consumer.close()
