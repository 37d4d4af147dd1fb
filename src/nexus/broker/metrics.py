"""What the broker counts, under names that begin with `nexus_broker_`.

The hot path adds to plain integers; everything else is read off when somebody scrapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nexus.broker.sharing.overview import watch_sharing
from nexus.observe.health import disk
from nexus.observe.metrics import Counter, Histogram, Registry
from nexus.wire.apis import Api, ApiKey
from nexus.wire.batch import BatchHeader

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

Rows = Iterable[tuple[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """What went in and out of one topic since the start."""

    messages_in: Counter
    bytes_in: Counter
    messages_out: Counter
    bytes_out: Counter

    def appended(self, header: BatchHeader) -> None:
        """Count a batch that was appended."""
        self.messages_in.inc(header.count)
        self.bytes_in.inc(header.size)

    def read(self, messages: int, size: int) -> None:
        """Count what a consumer is sent."""
        self.messages_out.inc(messages)
        self.bytes_out.inc(size)


class BrokerMetrics:
    """The broker's counters, and the gauges that look at it."""

    def __init__(self) -> None:
        self.registry = Registry()
        self._errors = self.registry.counter(
            "nexus_broker_errors", "Requests and connections that ended in an error.", ("kind",)
        )
        self.connections_accepted = self.registry.counter(
            "nexus_broker_connections_accepted", "Connections accepted."
        ).labels()
        self.corruptions = self.registry.counter(
            "nexus_broker_corruptions", "Damaged batches found in logs."
        ).labels()
        self.repairs = self.registry.counter(
            "nexus_broker_repairs", "Damaged batches replaced by another broker's copy."
        ).labels()
        requests = self.registry.histogram(
            "nexus_broker_request_seconds",
            "From a request's arrival to its response; fetches include the wait for data.",
            ("api",),
        )
        self._requests: dict[ApiKey, Histogram] = {
            key: requests.labels(api=key.name.lower()) for key in ApiKey
        }
        self._traffic = {
            name: self.registry.counter(f"nexus_broker_topic_{name}", meaning, ("topic",))
            for name, meaning in _TRAFFIC.items()
        }
        self.fsync_seconds = self.registry.histogram(
            "nexus_broker_fsync_seconds", "Time to flush a partition to disk."
        ).labels()

    def served(self, api: Api, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests[api.key].observe(seconds)

    def error(self, kind: str) -> None:
        """Count an error by kind."""
        self._errors.labels(kind=kind).inc()

    def traffic(self, topic: str) -> TopicTraffic:
        """The counters of one topic."""
        return TopicTraffic(**{name: f.labels(topic=topic) for name, f in self._traffic.items()})

    def forget_topic(self, topic: str) -> None:
        """Drop the counters of a topic that was deleted."""
        for family in self._traffic.values():
            family.forget(topic=topic)

    def watch(self, broker: Broker) -> None:
        """Add the gauges that are read off the broker at each scrape."""
        gauge = self.registry.gauge
        topics = broker.topics
        gauge(
            "nexus_broker_connections",
            "Open connections.",
            collect=lambda: [((), len(broker.server.connections))],
        )
        gauge(
            "nexus_broker_send_queue_bytes",
            "Bytes that wait for slow clients.",
            collect=lambda: [((), sum(c.queued_bytes for c in broker.server.connections))],
        )
        gauge("nexus_broker_topics", "Topics.", collect=lambda: [((), len(topics))])
        gauge(
            "nexus_broker_partitions",
            "Partitions.",
            collect=lambda: [((), sum(len(t.partitions) for t in topics))],
        )
        gauge(
            "nexus_broker_partitions_offline",
            "Partitions whose disk failed.",
            collect=lambda: [((), sum(p.log.failure is not None for p in topics.partitions()))],
        )
        for name, meaning in _DISK.items():
            gauge(
                f"nexus_broker_disk_{name}_bytes",
                meaning,
                collect=partial(_disk_bytes, broker.settings.broker.data_dir, name),
            )
        gauge(
            "nexus_broker_partitions_damaged",
            "Partitions with damage that is not mended yet.",
            collect=lambda: [((), len(broker.repairs.damaged))],
        )
        gauge(
            "nexus_broker_log_bytes",
            "Size of a partition's log.",
            ("topic", "partition"),
            collect=lambda: _by_partition(broker, "size_bytes"),
        )
        gauge(
            "nexus_broker_log_start_offset",
            "First offset of a partition.",
            ("topic", "partition"),
            collect=lambda: _by_partition(broker, "start_offset"),
        )
        gauge(
            "nexus_broker_log_end_offset",
            "Next offset of a partition.",
            ("topic", "partition"),
            collect=lambda: _by_partition(broker, "end_offset"),
        )
        gauge(
            "nexus_broker_group_lag",
            "Messages between a group's committed offset and the high watermark.",
            ("group", "topic", "partition"),
            collect=broker.groups.lags,
        )
        watch_sharing(self.registry, broker.sharing)
        gauge(
            "nexus_broker_groups",
            "Consumer groups.",
            collect=lambda: [
                ((), sum(len(c.list_groups()[1]) for c in broker.groups.coordinators()))
            ],
        )


_TRAFFIC: Final = {
    "messages_in": "Messages appended.",
    "bytes_in": "Bytes appended.",
    "messages_out": "Messages sent to consumers.",
    "bytes_out": "Bytes sent to consumers.",
}


_DISK: Final = {
    "size": "Size of the disk that holds the data.",
    "free": "What is free of it.",
}


def _disk_bytes(data_dir: Path, name: str) -> Rows:
    found = disk(data_dir).get("total_bytes" if name == "size" else f"{name}_bytes")
    return [] if found is None else [((), float(found))]


def _by_partition(broker: Broker, attribute: str) -> Rows:
    for partition in broker.topics.partitions():
        labels = (partition.topic, str(partition.index))
        yield labels, getattr(partition.log, attribute)
