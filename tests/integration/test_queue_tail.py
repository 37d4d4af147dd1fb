"""The Kafka tail: what comes from now on, of all partitions, and never long behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from nexus.queue.kafka_tail import KafkaTail
from nexus.queue.opening import open_tail
from nexus.queue.port import Received
from nexus.queue.url import KafkaUrl
from support.broker import BrokerProcess
from support.confluent import admin_of, create_topic, deliver, producer_of, send
from support.fixtures import MakeTopic
from support.waiting import wait_until

Open = Callable[..., KafkaTail]


@pytest.fixture
def tail_of() -> Iterator[Open]:
    made: list[KafkaTail] = []

    def make(bootstrap: str, topic: str, **options: Any) -> KafkaTail:
        made.append(KafkaTail(KafkaUrl((bootstrap,), topic), **options))
        return made[-1]

    yield make
    for tail in made:
        tail.close()


def taken(tail: KafkaTail, count: int) -> list[Received]:
    """The next messages, as many as are expected."""
    seen: list[Received] = []

    def enough() -> bool:
        seen.extend(tail.poll(0.05))
        return len(seen) >= count

    wait_until(enough, what=f"{count} messages ({tail.problem})")
    assert tail.poll(0.05) == []
    return seen


def test_it_begins_with_what_comes_after_it_was_opened(broker: BrokerProcess, topic: str) -> None:
    send(broker.bootstrap, topic, [b"before"] * 5)
    tail = open_tail(f"kafka://{broker.bootstrap}/{topic}")
    try:
        assert tail.positions() == {0: 5}
        headers = [("content-type", b"application/json")]
        producer = producer_of(broker.bootstrap)
        deliver(producer, topic, [b"{}"], partition=0, key=b"k", headers=headers)
        (message,) = wait_until(lambda: tail.poll(0.05), what="a message")
        partition, offset, _, key, value, said = message
        assert (partition, offset, key, value, said) == (0, 5, b"k", b"{}", tuple(headers))
        assert (tail.skipped, tail.problem) == (0, "")
        assert tail.positions() == {0: 6}
    finally:
        tail.close()
        tail.close()
    assert tail.poll(0) == ()


def test_it_follows_all_partitions_in_their_order(
    tail_of: Open, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    tail = tail_of(broker.bootstrap, topic)
    producer = producer_of(broker.bootstrap)
    for n in range(300):
        producer.produce(topic, b"%d" % n, partition=n % 3)
    producer.flush(10)
    seen = taken(tail, 300)
    for partition in range(3):
        own = [int(m.value) for m in seen if m.partition == partition]
        assert own == list(range(partition, 300, 3))


def test_partitions_added_later_are_followed_from_their_beginning(
    tail_of: Open, broker: BrokerProcess, topic: str
) -> None:
    tail = tail_of(broker.bootstrap, topic, refresh_s=0.1)
    admin = admin_of(broker.bootstrap)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(10)
    deliver(producer_of(broker.bootstrap), topic, [b"new"] * 4, partition=2)
    send(broker.bootstrap, topic, [b"old"])
    assert sorted(m.value for m in taken(tail, 5)) == [b"new"] * 4 + [b"old"]


def test_a_topic_made_later_is_followed_from_its_beginning(
    tail_of: Open, broker: BrokerProcess, name: str
) -> None:
    tail = tail_of(broker.bootstrap, name, refresh_s=0.1)
    assert f"nexus topics create {name}" in tail.problem
    assert tail.poll(0) == []
    create_topic(admin_of(broker.bootstrap), name)
    send(broker.bootstrap, name, [b"first", b"second"])
    assert [m.value for m in taken(tail, 2)] == [b"first", b"second"]
    assert tail.problem == ""


def test_what_falls_behind_goes_to_the_end_and_counts_what_it_left_out(
    tail_of: Open, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    now = [0.0]
    tail = tail_of(broker.bootstrap, topic, patience_s=10, refresh_s=1e9, clock=lambda: now[0])
    deliver(producer_of(broker.bootstrap), topic, [b"x" * 1000] * 30_000, partition=1)
    seen = len(wait_until(lambda: tail.poll(0.05), what="the first messages"))
    now[0] += 10  # it looks how far the partition goes
    seen += len(tail.poll(0))
    assert (tail.skipped, seen < 25_000) == (0, True)
    now[0] += 10  # and has not come that far
    assert tail.poll(0) == []
    assert tail.skipped == 30_000 - seen
    deliver(producer_of(broker.bootstrap), topic, [b"newest"], partition=1)
    send(broker.bootstrap, topic, [b"other"])
    assert sorted(m.value for m in taken(tail, 2)) == [b"newest", b"other"]


def test_what_keeps_up_leaves_nothing_out(tail_of: Open, broker: BrokerProcess, topic: str) -> None:
    now = [0.0]
    tail = tail_of(broker.bootstrap, topic, patience_s=10, refresh_s=1e9, clock=lambda: now[0])
    for n in range(5):
        send(broker.bootstrap, topic, [b"%d" % n] * 100)
        assert {m.value for m in taken(tail, 100)} == {b"%d" % n}
        now[0] += 11
        assert tail.poll(0) == []
    assert tail.skipped == 0


def test_a_broker_may_go_and_come_back(tail_of: Open, own_broker: BrokerProcess, name: str) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    tail = tail_of(own_broker.bootstrap, name, refresh_s=0.2)
    send(own_broker.bootstrap, name, [b"before"])
    assert [m.value for m in taken(tail, 1)] == [b"before"]
    own_broker.stop()
    wait_until(lambda: tail.poll(0.05) or tail.problem, what="a problem that is told")
    assert own_broker.bootstrap in tail.problem
    own_broker.start()
    send(own_broker.bootstrap, name, [b"after"])
    assert [m.value for m in taken(tail, 1)] == [b"after"]
    wait_until(lambda: tail.poll(0.05) or not tail.problem, what="the problem to be over")
    assert tail.skipped == 0


def test_a_tail_that_was_opened_while_the_broker_was_away_begins_when_it_is_there(
    tail_of: Open, own_broker: BrokerProcess, name: str
) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    send(own_broker.bootstrap, name, [b"before"])
    own_broker.stop()
    tail = tail_of(own_broker.bootstrap, name, refresh_s=0.2)
    assert "no broker answers" in tail.problem
    own_broker.start()
    wait_until(lambda: tail.poll(0.05) or not tail.problem, what="the tail to find the broker")
    send(own_broker.bootstrap, name, [b"after"])
    assert [m.value for m in taken(tail, 1)] == [b"after"]
