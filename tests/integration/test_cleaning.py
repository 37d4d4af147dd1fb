"""Retention and compaction as clients see them: old data goes, the newest of each key stays."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import TopicPartition

from support.broker import BrokerProcess
from support.confluent import (
    admin_of,
    consumer_of,
    create_topic,
    deliver,
    error_names,
    producer_of,
    send,
    values_in,
    watermarks,
)
from support.fixtures import MakeBroker
from support.waiting import wait_until

SMALL = {"batch.num.messages": 5}
SETTINGS = "storage: {retention_check_interval: 50ms}"


@pytest.fixture
def cleaner(make_broker: MakeBroker) -> BrokerProcess:
    """A broker that looks twenty times a second for what may go."""
    return make_broker(settings=SETTINGS)


def test_old_messages_go_and_new_ones_stay(cleaner: BrokerProcess, name: str) -> None:
    create_topic(admin_of(cleaner.bootstrap), name, configs={"retention.ms": "3600000"})
    producer = producer_of(cleaner.bootstrap)
    long_ago = int(time.time() * 1000) - 2 * 3_600_000
    old = deliver(producer, name, [b"old"] * 10, partition=0, timestamp=long_ago)
    assert error_names(old) == set()
    wait_until(lambda: watermarks(cleaner.bootstrap, name) == (10, 10), what="retention by time")
    send(cleaner.bootstrap, name, [b"new"])
    assert values_in(cleaner.bootstrap, name) == [b"new"]


def test_a_log_that_is_too_large_loses_its_oldest_segments(
    cleaner: BrokerProcess, name: str
) -> None:
    sizes = {"retention.bytes": "50000", "segment.bytes": "10000"}
    create_topic(admin_of(cleaner.bootstrap), name, configs=sizes)
    send(cleaner.bootstrap, name, [b"%03d" % n * 300 for n in range(200)], **SMALL)
    wait_until(lambda: watermarks(cleaner.bootstrap, name)[0] > 100, what="retention by size")
    low, high = watermarks(cleaner.bootstrap, name)
    assert high == 200
    assert values_in(cleaner.bootstrap, name)[-1] == b"199" * 300
    assert 10 < high - low < 100


def test_a_compacted_topic_keeps_the_newest_of_each_key(cleaner: BrokerProcess, name: str) -> None:
    policy = {
        "cleanup.policy": "compact",
        "segment.bytes": "4096",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
    }
    create_topic(admin_of(cleaner.bootstrap), name, configs=policy)
    producer = producer_of(cleaner.bootstrap, **SMALL)
    for n in range(400):
        producer.produce(name, b"%d" % n, b"key-%d" % (n % 4), partition=0)
    producer.produce(name, None, b"key-0", partition=0)
    for n in range(400, 600):
        producer.produce(name, b"%d" % n, b"key-%d" % (n % 3 + 1), partition=0)
    assert error_names(deliver(producer, name, [])) == set()

    newest = {b"key-1": b"597", b"key-2": b"598", b"key-3": b"599"}

    def compacted() -> bool:
        found = keyed(cleaner, name)
        # The active segment is never touched: old values of the last batches may remain.
        return dict(found) == newest and len(found) < 200

    wait_until(compacted, within=20, every=0.2, what="a compacted log")
    assert watermarks(cleaner.bootstrap, name)[1] == 601


def keyed(broker: BrokerProcess, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """All keys and values, read to the very end: a position must be able to reach it."""
    _, high = watermarks(broker.bootstrap, topic)
    consumer = consumer_of(broker.bootstrap, **{"enable.partition.eof": True})
    found: list[tuple[bytes | None, bytes | None]] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append((message.key(), message.value()))
            elif message is not None:
                (position,) = consumer.position([TopicPartition(topic, 0)])
                assert position.offset == high
                return found
    finally:
        consumer.close()
    raise AssertionError("the end was never reached")
