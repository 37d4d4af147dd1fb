"""Errors of a queue say what is wrong and what to do, also after a journey between processes."""

from __future__ import annotations

import pickle

import pytest
from confluent_kafka import KafkaError

from nexus.queue.errors import (
    OffsetsGone,
    OffsetsMissing,
    QueueAway,
    QueueError,
    TopicMissing,
)
from nexus.queue.kafka_offsets import trouble
from nexus.queue.opening import open_reader, open_tail
from nexus.queue.url import KafkaUrl

URL = KafkaUrl(("localhost:9092",), "readings")


def test_offsets_that_are_gone_say_which() -> None:
    gone = OffsetsGone(3, 10, 26)
    assert (gone.partition, gone.start, gone.first) == (3, 10, 26)
    assert "partition 3: offsets 10 to 25 were removed" in str(gone)


@pytest.mark.parametrize("error", [OffsetsGone(3, 10, 26), OffsetsMissing(3, 9, 5)])
def test_an_error_of_a_worker_reaches_the_driver_whole(error: QueueError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissing, "nexus topics create readings"),
        (KafkaError._ALL_BROKERS_DOWN, QueueAway, "no broker answers"),
        (KafkaError._TIMED_OUT, QueueAway, "no broker answers in time"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, QueueError, "authorization"),
    ],
)
def test_the_clients_errors_become_ours(code: int, kind: type[QueueError], text: str) -> None:
    error = trouble(URL, KafkaError(code))
    assert type(error) is kind
    assert str(error).startswith("queue kafka://localhost:9092/readings: ")
    assert text in str(error)


def test_whoever_waits_for_a_queue_waits_for_a_missing_topic_too() -> None:
    assert issubclass(TopicMissing, QueueAway)


def test_a_queue_of_another_kind_cannot_be_opened() -> None:
    with pytest.raises(QueueError, match="unknown kind amqp"):
        open_reader("amqp://localhost/readings")
    with pytest.raises(QueueError, match="unknown kind amqp"):
        open_tail("amqp://localhost/readings")


def test_a_setting_that_the_client_does_not_know_is_told() -> None:
    reader = open_reader("kafka://localhost:9092", client={"no.such.setting": 1})
    with pytest.raises(QueueError, match=r'"no\.such\.setting"'):
        reader.partitions()
