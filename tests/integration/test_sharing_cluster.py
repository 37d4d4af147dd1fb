"""Queues over three brokers: one dies while members work, and no acknowledgement is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from support.cluster import START_SECONDS, BrokerCluster
from support.confluent import send
from support.sharing import Member
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)

GROUP = "workers"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    made = BrokerCluster(Path(tmp_path_factory.mktemp("sharing")))
    try:
        yield made.start()
    finally:
        made.stop()


def member_at(cluster: BrokerCluster, node: int, topic: str) -> Member:
    return Member(cluster.brokers[node].port, GROUP, topic)


def depth(cluster: BrokerCluster, topic: str) -> int:
    labels = {"group": GROUP, "topic": topic}
    live = [broker for broker in cluster.brokers.values() if broker.alive]
    return int(sum(one.metric("nexus_broker_share_depth", **labels) for one in live))


def test_no_acknowledgement_is_forgotten_when_leaders_die(cluster: BrokerCluster) -> None:
    topic, count = "moved", 200
    cluster.admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(20)
    send(cluster.bootstrap, topic, [b"%d" % n for n in range(count)])
    confirmed: set[int] = set()
    for _ in range(2):
        leader = cluster.leader(topic)
        with member_at(cluster, leader, topic) as member:
            taken = [one.offset for one in member.take(60, wait_ms=10_000)]
            assert taken
            assert not confirmed & set(taken), "delivered after its acknowledgement"
            wait_until(lambda: member.settle(taken[::2]) == 0, within=30)  # noqa: B023
            confirmed |= set(taken[::2])
            cluster.brokers[leader].kill()
        wait_until(lambda: cluster.leader(topic) != leader, within=60)  # noqa: B023
        # The new leader counts what waits before any consumer comes.
        left = count - len(confirmed)
        wait_until(lambda: depth(cluster, topic) == left, within=60)  # noqa: B023
        cluster.brokers[leader].spawn()
        cluster.brokers[leader].wait_ready(within=START_SECONDS)
        cluster.wait_in_sync(topic, within=60)
        cluster.wait_in_sync("__share_group_state", within=60)
    with member_at(cluster, cluster.leader(topic), topic) as member:
        rest = [one.offset for one in member.take_all(count - len(confirmed))]
        assert member.take(wait_ms=0) == []
    assert not confirmed & set(rest)
    assert confirmed | set(rest) == set(range(count))
    for broker in cluster.brokers.values():
        assert broker.faults() == []


def test_a_static_broker_keeps_its_queues_without_the_others(tmp_path: Path) -> None:
    cluster = BrokerCluster(tmp_path, is_static=True, replication=1, least=1)
    try:
        cluster.start()
        topic = "fixed"
        cluster.admin.create_topics([NewTopic(topic, 6, 1)])[topic].result(20)
        owner = cluster.leader(topic)
        send(cluster.bootstrap, topic, [b"a", b"b"])
        with member_at(cluster, owner, topic) as member:
            assert len(member.take_all(2)) == 2
            for node, broker in cluster.brokers.items():
                if node != owner:
                    broker.kill()
            assert member.settle([0]) == 0
        cluster.brokers[owner].kill()
        cluster.brokers[owner].spawn()
        cluster.brokers[owner].wait_ready(within=START_SECONDS)
        with member_at(cluster, owner, topic) as member:
            assert [one.offset for one in member.take_all(1)] == [1]
    finally:
        cluster.stop()
