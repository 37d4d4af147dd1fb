"""The Kafka publisher: what it took is held by the queue in the end, whatever breaks on the way."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from nexus.queue.errors import MessageRefused, QueueAway, QueueFull
from nexus.queue.kafka_publisher import KafkaPublisher
from nexus.queue.port import Message
from nexus.queue.publishing import PublisherOptions
from nexus.queue.url import KafkaUrl
from support.broker import BrokerProcess
from support.confluent import admin_of
from support.fixtures import MakeBroker, MakeTopic
from support.ports import free_port
from support.streamers import messages_in
from support.waiting import wait_until

Make = Callable[..., KafkaPublisher]
SPARSE = pytest.mark.parametrize("sparse", [False, True], ids=["all reports", "sparse reports"])


@pytest.fixture
def publisher() -> Iterator[Make]:
    made: list[KafkaPublisher] = []

    def make(bootstrap: str, topic: str, **options: object) -> KafkaPublisher:
        url = KafkaUrl((bootstrap,), topic)
        made.append(KafkaPublisher(url, PublisherOptions(partitions=4, **options)))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


class Settled:
    """What became of the batches of one publisher."""

    def __init__(self, publisher: KafkaPublisher) -> None:
        self._publisher = publisher
        self.outcomes: list[MessageRefused | None] = []
        self._changed = threading.Condition()

    def send(self, first: int, count: int, *, size: int = 10) -> None:
        messages = [
            Message(str(n).zfill(size).encode(), partition=n % 4)
            for n in range(first, first + count)
        ]
        self._publisher.publish(messages, self._settled)

    def wait(self, batches: int) -> list[MessageRefused | None]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.outcomes) >= batches, 30)
            return list(self.outcomes)

    def _settled(self, refused: MessageRefused | None) -> None:
        with self._changed:
            self.outcomes.append(refused)
            self._changed.notify_all()


def numbers(bootstrap: str, topic: str) -> list[int]:
    return [int(m.value() or b"") for m in messages_in(bootstrap, topic, 4)]


def test_it_makes_the_topics_and_says_how_many_partitions_there_are(
    publisher: Make, broker: BrokerProcess, name: str
) -> None:
    made = publisher(broker.bootstrap, name)
    wait_until(lambda: not made.stats.problem, what="a connection")
    assert made.partitions() == 4
    topics = admin_of(broker.bootstrap).list_topics(timeout=5).topics
    assert len(topics[f"{name}.dlq"].partitions) == 1


@SPARSE
def test_batches_settle_and_stay_in_order(
    publisher: Make, broker: BrokerProcess, name: str, sparse: bool
) -> None:
    made = publisher(broker.bootstrap, name, sparse_reports=sparse)
    settled = Settled(made)
    for first in range(0, 2000, 100):
        settled.send(first, 100)
    assert settled.wait(20) == [None] * 20
    assert made.flush(1) == 0
    assert (made.stats.messages, made.stats.in_flight_bytes) == (2000, 0)
    held = numbers(broker.bootstrap, name)
    assert sorted(held) == list(range(2000))
    for partition in range(4):
        own = [n for n in held if n % 4 == partition]
        assert own == sorted(own)


@SPARSE
def test_a_message_that_is_refused_for_good_is_told_and_stops_nothing(
    publisher: Make, broker: BrokerProcess, make_topic: MakeTopic, sparse: bool
) -> None:
    topic = make_topic(4, **{"max.message.bytes": "5000"})
    settled = Settled(publisher(broker.bootstrap, topic, sparse_reports=sparse))
    settled.send(0, 4)
    settled.send(4, 4, size=50_000)
    settled.send(8, 4)
    outcomes = settled.wait(3)
    assert [outcome is not None for outcome in outcomes].count(True) == 1
    assert set(numbers(broker.bootstrap, topic)) == {0, 1, 2, 3, 8, 9, 10, 11}


@SPARSE
def test_of_a_batch_that_is_refused_only_the_bad_message_is_lost(
    publisher: Make, broker: BrokerProcess, make_topic: MakeTopic, sparse: bool
) -> None:
    """The limit shrinks while the client still believes in the old one."""
    topic = make_topic(4)
    made = publisher(broker.bootstrap, topic, sparse_reports=sparse, linger_ms=200)
    settled = Settled(made)
    settled.send(0, 4)
    settled.wait(1)
    admin = admin_of(broker.bootstrap)
    limit = ConfigEntry("max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[limit])
    admin.incremental_alter_configs([resource])[resource].result(10)
    settled.send(4, 4)
    settled.send(8, 4, size=50_000)
    settled.send(12, 4)
    outcomes = settled.wait(4)
    assert len([outcome for outcome in outcomes if outcome is not None]) == 1
    assert set(numbers(broker.bootstrap, topic)) == {*range(8), *range(12, 16)}
    settled.send(16, 400)
    settled.wait(5)
    assert set(range(16, 416)) <= set(numbers(broker.bootstrap, topic))


def test_a_topic_that_is_deleted_is_made_again_and_filled(
    publisher: Make, broker: BrokerProcess, name: str
) -> None:
    made = publisher(broker.bootstrap, name)
    settled = Settled(made)
    settled.send(0, 100)
    settled.wait(1)
    admin = admin_of(broker.bootstrap)
    admin.delete_topics([name])[name].result(10)
    settled.send(100, 100)
    assert settled.wait(2) == [None, None]
    assert set(numbers(broker.bootstrap, name)) >= set(range(100, 200))


def test_a_broker_that_lost_everything_is_published_to_again(
    publisher: Make, make_broker: MakeBroker, name: str
) -> None:
    broker = make_broker()
    settled = Settled(publisher(broker.bootstrap, name, sparse_reports=True))
    settled.send(0, 100)
    settled.wait(1)
    broker.kill()
    shutil.rmtree(broker.data_dir)
    settled.send(100, 100)
    broker.start()
    assert settled.wait(2) == [None, None]
    assert set(numbers(broker.bootstrap, name)) == set(range(100, 200))


def test_what_is_on_its_way_has_a_bound(publisher: Make, name: str) -> None:
    made = publisher(f"127.0.0.1:{free_port()}", name, in_flight_bytes=1000)
    with pytest.raises(QueueAway):
        made.partitions()
    settled = Settled(made)
    settled.send(0, 80)
    with pytest.raises(QueueFull):
        settled.send(80, 80)
    assert made.flush(0.01) == 80
