"""Kafka's protocol by confluent-kafka: librdkafka, so C does the work. For ours and for Kafka."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import confluent_kafka
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from nexus.bench.clients import BenchFailed, Load, Read, consumer_at, gathering, producer_for
from peers.clients.port import Lanes, Receiver, Sender

_WAIT_S = 60.0


class KafkaClient:
    """Batches as librdkafka makes them by default; at a fixed rate, of what is there (linger 0)."""

    chunk = 1000
    words = (
        f"confluent-kafka {confluent_kafka.__version__} (C), acks=all, default batching;"
        " consumers read partitions without commits"
    )

    def prepare(
        self, lanes: Lanes, replication: int = -1, configs: Mapping[str, str] | None = None
    ) -> None:
        admin = AdminClient({"bootstrap.servers": lanes.address, "log_level": 0})
        topic = NewTopic(lanes.name, lanes.count, replication, config=dict(configs or {}))
        admin.create_topics([topic], request_timeout=_WAIT_S)[lanes.name].result(_WAIT_S)
        # A new topic's partitions may not have their leader at once.
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline:
            with suppress(KafkaException):
                found = admin.list_topics(lanes.name, timeout=10).topics[lanes.name].partitions
                if len(found) == lanes.count and all(p.leader >= 0 for p in found.values()):
                    return
            time.sleep(0.05)
        raise BenchFailed(f"{lanes.name} has no leaders")

    def remove(self, lanes: Lanes) -> None:
        admin = AdminClient({"bootstrap.servers": lanes.address, "log_level": 0})
        admin.delete_topics([lanes.name], request_timeout=_WAIT_S)[lanes.name].result(_WAIT_S)

    def sender(self, lanes: Lanes) -> Sender:
        return _Sender(lanes)

    def receiver(self, lanes: Lanes, number: int) -> Receiver:
        return _Receiver(lanes, number)


class _Sender:
    def __init__(self, lanes: Lanes) -> None:
        options = gathering(0 if lanes.prompt else None, None)
        load = Load(lanes.address, lanes.name, 0, options=options)
        self._producer = producer_for(load, self._failed)
        self._topic = lanes.name
        self._failures = 0
        self._producer.list_topics(lanes.name, timeout=_WAIT_S)

    def send(self, values: Sequence[bytes], lane: int) -> None:
        produce, topic = self._producer.produce, self._topic
        for value in values:
            while True:
                try:
                    produce(topic, value, partition=lane)
                    break
                except BufferError:
                    self._producer.poll(0.01)
        self._producer.poll(0)

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def flush(self) -> None:
        left = self._producer.flush(_WAIT_S)
        if left or self._failures:
            raise BenchFailed(f"{left + self._failures} messages were not acknowledged")

    def close(self) -> None:
        self._producer.purge()

    def _failed(self) -> None:
        self._failures += 1


class _Receiver:
    def __init__(self, lanes: Lanes, number: int) -> None:
        mine = tuple(lanes.of_consumer(number))
        self._consumer = consumer_at(Read(lanes.address, lanes.name, mine, 0))

    def receive(self, wait_s: float) -> list[bytes]:
        batch = self._consumer.consume(10_000, timeout=0) or self._consumer.consume(1, wait_s)
        values = (message.value() for message in batch if message.error() is None)
        return [value for value in values if isinstance(value, bytes)]

    def close(self) -> None:
        self._consumer.close()
