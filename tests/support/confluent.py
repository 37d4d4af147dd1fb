"""Short forms of what most tests do with confluent-kafka: make topics, send and read lists."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

Delivery = tuple[KafkaError | None, Message]
Value = str | bytes | None
ASK_AGAIN_TIMES = 5
AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)


def admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create_topic(
    admin: AdminClient, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
) -> str:
    """Make a topic. An admin client tries nothing again by itself when a broker goes away."""
    # As many replicas as the cluster has by default; a broker alone has one.
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=configs or {})
    allowed: set[int] = set()
    for _ in range(ASK_AGAIN_TIMES):
        error = _refusal(admin.create_topics([wanted], operation_timeout=10)[topic])
        if error is None or error.code() in allowed:
            return topic
        if error.code() not in AWAY and not error.retriable():
            raise KafkaException(error)
        allowed = {KafkaError.TOPIC_ALREADY_EXISTS}  # it may have happened
    raise KafkaException(error)


def _refusal(done: Future[Any]) -> KafkaError | None:
    try:
        done.result(20)
    except KafkaException as refused:
        error: KafkaError = refused.args[0]
        return error
    return None


def producer_of(bootstrap: str, **settings: Any) -> Producer:
    """A producer whose messages have 20 s to be delivered, unless told otherwise."""
    defaults = {"bootstrap.servers": bootstrap, "delivery.timeout.ms": 20_000, "linger.ms": 0}
    return Producer(defaults | settings)


def deliver(
    producer: Producer, topic: str, values: Iterable[Value], within: float = 20.0, **fields: Any
) -> list[Delivery]:
    """Send the values and wait for what became of each, in the order of the reports."""
    reports: list[Delivery] = []

    def keep(error: KafkaError | None, message: Message) -> None:
        reports.append((error, message))

    for value in values:
        producer.produce(topic, value, on_delivery=keep, **fields)
    left = producer.flush(within)
    assert left == 0, f"{left} messages without a delivery report after {within:g} s"
    return reports


def send(bootstrap: str, topic: str, values: Iterable[Value], **settings: Any) -> list[int]:
    """Deliver the values to partition 0; their offsets. Any error fails the test."""
    reports = deliver(producer_of(bootstrap, **settings), topic, values, partition=0)
    assert [error for error, _ in reports if error] == []
    return [message.offset() or 0 for _, message in reports]


def consumer_of(bootstrap: str, **settings: Any) -> Consumer:
    """A consumer for assigned partitions that commits nothing and reads from the beginning."""
    defaults = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
    }
    return Consumer(defaults | settings)


def read(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    partition: int = 0,
    offset: int = 0,
    within: float = 15.0,
    **settings: Any,
) -> list[Message]:
    """The next `count` messages of a partition from an offset on; fails when there are fewer."""
    consumer = consumer_of(bootstrap, **settings)
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        return poll_for(consumer, count, within=within)
    finally:
        consumer.close()


def poll_for(consumer: Consumer, count: int, *, within: float = 30.0) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + within
    while len(messages) < count and time.monotonic() < deadline:
        batch = consumer.consume(count - len(messages), timeout=0.2)
        messages += [checked(message) for message in batch]
    assert len(messages) == count, f"{len(messages)} of {count} messages within {within:g} s"
    return messages


def checked(message: Message) -> Message:
    error = message.error()
    assert error is None, error
    return message


def values_in(
    bootstrap: str, topic: str, partition: int = 0, **settings: Any
) -> list[bytes | None]:
    """Every value of a partition up to its watermark."""
    low, high = watermarks(bootstrap, topic, partition)
    consumer = consumer_of(bootstrap, **{"enable.partition.eof": True} | settings)
    try:
        consumer.assign([TopicPartition(topic, partition, low)])
        return [message.value() for message in _until_end(consumer, high, low)]
    finally:
        consumer.close()


def _until_end(consumer: Consumer, high: int, low: int) -> Iterable[Message]:
    deadline = time.monotonic() + 20
    while low < high and time.monotonic() < deadline:
        for message in consumer.consume(1000, timeout=0.2):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise AssertionError(error)


def watermarks(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """Start of the log and the high watermark."""
    consumer = consumer_of(bootstrap)
    try:
        answer = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        assert answer is not None
        return answer
    finally:
        consumer.close()


def error_names(reports: Iterable[Delivery]) -> set[str]:
    """Names of the errors among delivery reports, e.g. {"MSG_SIZE_TOO_LARGE"}."""
    return {error.name() for error, _ in reports if error is not None}
