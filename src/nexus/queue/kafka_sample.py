"""The first message at or after an offset, of many partitions in one go."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from nexus.queue.errors import QueueAway, QueueError
from nexus.queue.kafka_batch import received
from nexus.queue.kafka_client import HOPELESS
from nexus.queue.kafka_offsets import trouble
from nexus.queue.port import Received
from nexus.queue.url import KafkaUrl

_POLL_S: Final = 0.2


def samples(
    consumer: Consumer, url: KafkaUrl, offsets: Mapping[int, int], timeout_s: float
) -> dict[int, Received]:
    """One message of each partition that has one there; QueueAway when one cannot tell."""
    waiting = dict(offsets)
    found: dict[int, Received] = {}
    problem: QueueError | None = None
    consumer.assign([TopicPartition(url.topic, p, offset) for p, offset in waiting.items()])
    deadline = time.monotonic() + timeout_s
    while waiting and time.monotonic() < deadline:
        message = consumer.poll(_POLL_S)
        if message is None or message.partition() not in waiting:
            continue
        partition, error = message.partition() or 0, message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            problem = trouble(url, error, f"partition {partition}: ")
            if error.code() in HOPELESS:
                raise problem
            continue
        asked = waiting.pop(partition)
        if error is None and (message.offset() or 0) >= asked:
            found[partition] = received([message])[0]
    if waiting:
        raise problem or QueueAway(f"queue {url}: partition {min(waiting)} does not answer")
    return found
