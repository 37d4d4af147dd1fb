"""How the publisher's client gathers messages: as told, within what the topic takes."""

import pytest
from confluent_kafka import Producer

from nexus.queue.kafka_publisher import _gathering
from nexus.queue.publishing import PublisherOptions

TOPIC_BYTES = 1_000_000
LARGEST = TOPIC_BYTES - 200


@pytest.mark.parametrize(
    ("batch_bytes", "expected"),
    [(None, LARGEST), (1, 1), (16_384, 16_384), (LARGEST, LARGEST), (1 << 30, LARGEST)],
)
def test_a_batch_is_as_large_as_told_and_never_larger_than_the_topic_takes(
    batch_bytes: int | None, expected: int
) -> None:
    options = PublisherOptions(linger_ms=300, batch_bytes=batch_bytes)
    config = _gathering(options, TOPIC_BYTES)
    assert config == {"linger.ms": 300, "batch.size": expected, "message.max.bytes": TOPIC_BYTES}
    Producer(config)  # the client takes it


def test_a_topic_of_tiny_batches_still_has_a_client() -> None:
    config = _gathering(PublisherOptions(batch_bytes=16_384), 100)
    assert (config["batch.size"], config["message.max.bytes"]) == (1, 1000)
    Producer(config)
