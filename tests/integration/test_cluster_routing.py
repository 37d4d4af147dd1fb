"""Three brokers, of which a client reaches one: it goes to the others for its clients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from support.checker import check
from support.confluent import (
    admin_of,
    consumer_of,
    deliver,
    error_names,
    poll_for,
    producer_of,
    values_in,
)
from support.routed import RoutedCluster
from support.waiting import wait_until
from support.workload import Workload

pytestmark = pytest.mark.timeout(240)
PARTITIONS = 6


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoutedCluster]:
    made = RoutedCluster(Path(tmp_path_factory.mktemp("routed")))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def cluster(started: RoutedCluster) -> Iterator[RoutedCluster]:
    """The cluster with every broker up again afterwards, and without one unexpected exception."""
    yield started
    for broker in started.brokers.values():
        if not broker.alive:
            broker.start()
        assert broker.faults() == []


@pytest.fixture
def proxy(cluster: RoutedCluster) -> str:
    """The one address that clients are given."""
    return cluster.brokers[1].bootstrap


def make(bootstrap: str, topic: str, **configs: str) -> str:
    wanted = NewTopic(topic, PARTITIONS, 3, config=configs)
    admin = admin_of(bootstrap)
    admin.create_topics([wanted])[topic].result(20)
    return topic


def leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    """Whom a broker names as the leader of each partition."""
    parts = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return {number: part.leader for number, part in parts.items()}


def truth(cluster: RoutedCluster, topic: str) -> dict[int, int]:
    """Who leads each partition, once all are led and more than one broker leads."""

    def spread() -> dict[int, int]:
        # A new client each time: one that has come to ask the proxy stays with it.
        found = leaders(admin_of(cluster.brokers[2].bootstrap), topic)
        is_spread = len(set(found.values())) > 1 and -1 not in found.values()
        return found if is_spread else {}

    return wait_until(spread, within=60, what="several leaders")


def test_a_proxy_names_no_broker_but_itself(cluster: RoutedCluster, proxy: str) -> None:
    topic = make(proxy, "named")
    assert len(set(truth(cluster, topic).values())) > 1
    admin = admin_of(proxy)
    seen = admin.list_topics(timeout=10)
    assert {b.id: f"{b.host}:{b.port}" for b in seen.brokers.values()} == {1: proxy}
    assert seen.controller_id == 1
    assert set(leaders(admin, topic).values()) == {1}
    described = admin.describe_cluster().result(20)
    assert [node.id for node in described.nodes] == [1]
    for group in ("a", "b", "c", "d"):
        found = admin.describe_consumer_groups([group])[group].result(20)
        assert found.coordinator.id == 1


def test_a_topic_can_be_routed_by_proxy_while_others_are_not(cluster: RoutedCluster) -> None:
    direct = cluster.brokers[2].bootstrap
    routed = make(direct, "routed", **{"routing.mode": "proxy"})
    plain = make(direct, "plain")
    truth(cluster, plain)
    admin = admin_of(direct)
    assert len(set(leaders(admin, routed).values())) == 1  # whichever broker the client asked
    producer = producer_of(direct)
    for partition in range(PARTITIONS):
        reports = deliver(producer, routed, [b"%d" % partition], partition=partition)
        assert error_names(reports) == set()
    found = [values_in(direct, routed, partition) for partition in range(PARTITIONS)]
    assert found == [[b"%d" % partition] for partition in range(PARTITIONS)]


def test_one_request_for_partitions_of_all_owners_is_split_and_rejoined(
    cluster: RoutedCluster, proxy: str
) -> None:
    """kafka-python gathers what goes to one broker into one request, whatever its partition."""
    topic = make(proxy, "mixed")
    wait_until(
        lambda: set(truth(cluster, topic).values()) == {1, 2, 3}, within=60, what="three leaders"
    )
    producer = KafkaProducer(bootstrap_servers=proxy, linger_ms=100, acks="all")
    numbers = range(20 * PARTITIONS)
    try:
        sent = [producer.send(topic, b"%d" % n, partition=n % PARTITIONS) for n in numbers]
        offsets = [each.get(timeout=30).offset for each in sent]
    finally:
        producer.close(timeout=10)
    assert offsets == [n // PARTITIONS for n in numbers]
    for partition in range(PARTITIONS):
        wanted = [b"%d" % n for n in numbers[partition::PARTITIONS]]
        assert values_in(proxy, topic, partition) == wanted


def test_a_waiting_fetch_ends_whoever_has_the_data(cluster: RoutedCluster, proxy: str) -> None:
    """One fetch waits at all leaders for a minute; a message at any of them must not."""
    topic = make(proxy, "waiting")
    truth(cluster, topic)
    slow = {"fetch.wait.max.ms": 60_000, "socket.timeout.ms": 90_000}
    consumer = consumer_of(proxy, **slow)
    producer = producer_of(proxy)
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        assert consumer.poll(1.0) is None
        opened = cluster.brokers[2].metric("nexus_broker_connections_accepted_total")
        began = time.monotonic()
        for n in range(4 * PARTITIONS):
            reports = deliver(producer, topic, [b"%d" % n], partition=n % PARTITIONS)
            assert error_names(reports) == set()
            (message,) = poll_for(consumer, 1, within=40)
            assert (message.partition(), message.value()) == (n % PARTITIONS, b"%d" % n)
        assert consumer.poll(0.5) is None, "told twice"
        assert time.monotonic() - began < 55
        # The waits that lost the race stayed open: nobody hung up to start them again.
        again = cluster.brokers[2].metric("nexus_broker_connections_accepted_total")
        assert again - opened < 2 * PARTITIONS
    finally:
        consumer.close()


def test_a_long_poll_ends_at_its_owner_when_the_client_goes(
    cluster: RoutedCluster, proxy: str
) -> None:
    topic = make(proxy, "given-up")
    truth(cluster, topic)
    others = [cluster.brokers[2], cluster.brokers[3]]

    def connections() -> list[float]:
        return [broker.metric("nexus_broker_connections") for broker in others]

    before = connections()
    consumer = consumer_of(proxy, **{"fetch.wait.max.ms": 60_000, "socket.timeout.ms": 90_000})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    assert consumer.poll(1.0) is None
    wait_until(lambda: sum(connections()) > sum(before), what="a wait at another broker")
    consumer.close()
    wait_until(lambda: sum(connections()) <= sum(before), what="nobody waiting any more")


def test_the_other_brokers_restart_and_die_and_the_client_sees_no_error(
    cluster: RoutedCluster, proxy: str
) -> None:
    topic = make(proxy, "going-on")
    cluster.wait_in_sync(topic)
    truth(cluster, topic)
    with Workload(proxy, topic, partitions=PARTITIONS, producers=2) as workload:
        workload.wait_acknowledged(500)
        for node in (2, 3):
            cluster.brokers[node].restart()
            workload.wait_acknowledged(500)
            cluster.wait_in_sync(topic, within=60)
        cluster.brokers[2].kill()
        workload.wait_acknowledged(500)
        cluster.brokers[2].start()
        workload.wait_acknowledged(500)
        cluster.wait_in_sync(topic, within=60)
    report = check(workload.history, workload.read_back(), min_acked=2000, min_ack_rate=1.0)
    report.assert_passed()


def test_what_is_sent_without_acknowledgement_arrives(cluster: RoutedCluster, proxy: str) -> None:
    topic = make(proxy, "unanswered")
    truth(cluster, topic)
    producer = producer_of(proxy, acks="0")
    for partition in range(PARTITIONS):
        values = [b"%d" % n for n in range(20)]
        assert error_names(deliver(producer, topic, values, partition=partition)) == set()
    wanted = [[b"%d" % n for n in range(20)]] * PARTITIONS
    wait_until(
        lambda: [values_in(proxy, topic, p) for p in range(PARTITIONS)] == wanted,
        within=20,
        what="every message",
    )
