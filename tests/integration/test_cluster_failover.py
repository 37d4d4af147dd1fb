"""Three brokers and one etcd: a broker dies while clients are at work, and nothing is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import NewTopic

from support.cluster import BrokerCluster
from support.confluent import producer_of, values_in
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    made = BrokerCluster(Path(tmp_path_factory.mktemp("cluster")))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def whole(cluster: BrokerCluster) -> Iterator[BrokerCluster]:
    """The cluster with every broker up again afterwards, and without one unexpected exception."""
    yield cluster
    for broker in cluster.brokers.values():
        if not broker.alive:
            broker.start()
        assert broker.faults() == []


def make(cluster: BrokerCluster, topic: str, partitions: int = 1, replication: int = 3) -> str:
    wanted = NewTopic(topic, partitions, replication)
    cluster.admin.create_topics([wanted])[topic].result(20)
    return topic


class Stream:
    """An idempotent producer that sends numbered messages all the time, and knows what arrived."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.acked: list[set[bytes]] = [set() for _ in range(partitions)]
        self.failed: list[Any] = []
        self.acked_at: list[list[float]] = [[] for _ in range(partitions)]
        self._topic, self._partitions = topic, partitions
        self._stopping = threading.Event()
        settings = {
            "enable.idempotence": True,
            "delivery.timeout.ms": 60_000,
            "linger.ms": 5,
            "retry.backoff.ms": 50,
            "retry.backoff.max.ms": 200,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        self._producer = producer_of(bootstrap, **settings)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for _ in range(20):
                partition = number % self._partitions
                value = b"%d" % number
                self._producer.produce(self._topic, value, None, partition, self._told)
                number += 1
            self._producer.poll(0.005)

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(error)
            return
        self.acked[message.partition()].add(message.value())
        self.acked_at[message.partition()].append(time.monotonic())

    @property
    def count(self) -> int:
        return sum(map(len, self.acked_at))

    def wait_for(self, more: int, within: float = 30.0) -> None:
        wanted = self.count + more
        wait_until(lambda: self.count >= wanted, within=within, what=f"{more} acknowledgements")

    def longest_pause(self, partition: int, since: float) -> float:
        """How long nothing was acknowledged in a partition."""
        acked = [t for t in list(self.acked_at[partition]) if t >= since]
        times = [since, *acked, time.monotonic()]
        return max(b - a for a, b in pairwise(times))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10)
        assert self._producer.flush(60) == 0


def check(cluster: BrokerCluster, topic: str, stream: Stream) -> None:
    """Every acknowledged message is there, and no message is there twice."""
    assert stream.failed == []
    for partition, acked in enumerate(stream.acked):
        found = values_in(cluster.bootstrap, topic, partition)
        assert len(found) == len(set(found)), "doubled"
        assert acked <= set(found), f"{len(acked - set(found))} lost"


def test_a_killed_leader_costs_nothing_and_writes_go_on(whole: BrokerCluster) -> None:
    topic = make(whole, "killed", partitions=3)
    whole.wait_in_sync(topic)
    stream = Stream(whole.bootstrap, topic, 3)
    stream.wait_for(1000)
    leader = whole.leader(topic)
    killed_at = time.monotonic()
    whole.brokers[leader].kill()
    before = len(stream.acked_at[0])
    wait_until(lambda: len(stream.acked_at[0]) > before + 500, within=30, what="writes to go on")
    pause = stream.longest_pause(0, killed_at)
    assert whole.leader(topic) != leader
    whole.brokers[leader].start()
    whole.wait_in_sync(topic)
    # It takes back what it should lead, and that costs nothing either.
    wait_until(lambda: whole.leader(topic) == leader, within=20, what="the preferred leader")
    stream.wait_for(1000)
    stream.stop()
    check(whole, topic, stream)
    print(f"writes resumed after {pause:.2f} s; {stream.count} acknowledged")
    assert pause < 10


def test_every_broker_restarts_in_turn_and_clients_see_no_error(whole: BrokerCluster) -> None:
    topic = make(whole, "rolling", partitions=3)
    whole.wait_in_sync(topic)
    stream = Stream(whole.bootstrap, topic, 3)
    stream.wait_for(500)
    for broker in whole.brokers.values():
        broker.restart()
        whole.wait_in_sync(topic)
        stream.wait_for(300)
    stream.stop()
    check(whole, topic, stream)


def test_a_group_goes_on_where_it_stood_when_its_coordinator_dies(whole: BrokerCluster) -> None:
    topic = make(whole, "grouped", partitions=2)
    stream = Stream(whole.bootstrap, topic, 2)
    stream.wait_for(400)
    stream.stop()
    first = _consume(whole, topic, "steady", 100)
    whole.wait_in_sync("__consumer_offsets")
    coordinator = _coordinator(whole, "steady")
    whole.brokers[coordinator].kill()
    rest = _consume(whole, topic, "steady", stream.count - 100)
    assert first | rest == set().union(*stream.acked)
    assert not first & rest


def _consume(cluster: BrokerCluster, topic: str, group: str, count: int) -> set[bytes]:
    """Read so many messages as the only member of a group, and commit."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + 40
    try:
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(found), timeout=0.5):
                assert message.error() is None, message.error()
                value = message.value()
                assert value is not None
                found.append(value)
        assert len(found) == count
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return set(found)


def _coordinator(cluster: BrokerCluster, group: str) -> int:
    described = cluster.admin.describe_consumer_groups([group])[group].result(20)
    node: int = described.coordinator.id
    return node


def test_a_topic_that_is_deleted_and_made_again_is_empty(whole: BrokerCluster) -> None:
    for round_ in range(3):
        topic = make(whole, "again", partitions=3)
        producer = producer_of(whole.bootstrap)
        for partition in range(3):
            producer.produce(topic, b"%d" % round_, partition=partition)
        assert producer.flush(30) == 0
        found = [values_in(whole.bootstrap, topic, partition) for partition in range(3)]
        assert found == [[b"%d" % round_]] * 3
        whole.admin.delete_topics([topic])[topic].result(20)
