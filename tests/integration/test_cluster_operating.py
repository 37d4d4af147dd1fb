"""An operator looks at a cluster, lets it grow and shrink, and clients do not notice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from support.cluster import BrokerCluster
from support.commands import nexus_cluster
from support.confluent import producer_of, values_in
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    made = BrokerCluster(Path(tmp_path_factory.mktemp("cluster")), replication=2, least=1)
    try:
        yield made.start()
    finally:
        made.stop()


def status(cluster: BrokerCluster) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(nexus_cluster(cluster.etcd.endpoint, "status", "--json"))
    return found


def test_a_broker_joins_and_another_is_drained_while_messages_stay(
    cluster: BrokerCluster,
) -> None:
    cluster.admin.create_topics([NewTopic("grown", 6, 2)])["grown"].result(20)
    producer = producer_of(cluster.bootstrap)
    for number in range(600):
        producer.produce("grown", b"%d" % number, partition=number % 6)
    assert producer.flush(30) == 0

    found = status(cluster)
    assert [broker["id"] for broker in found["brokers"]] == [1, 2, 3]
    assert found["offline"] == []
    assert found["partitions"] == 6

    cluster.brokers[4] = cluster.make(4)
    cluster.brokers[4].spawn()
    cluster.brokers[4].wait_ready(within=60)
    plan = json.loads(nexus_cluster(cluster.etcd.endpoint, "plan", "--json"))
    assert plan["partitions"] == 6
    said = nexus_cluster(cluster.etcd.endpoint, "rebalance")
    assert "partitions moved" in said

    assert "no differences" in nexus_cluster(cluster.etcd.endpoint, "verify", "grown")
    nexus_cluster(cluster.etcd.endpoint, "drain", "1")
    holds = {broker["id"]: broker["holds"] for broker in status(cluster)["brokers"]}
    assert holds[1] == 0
    assert cluster.brokers[1].stop() == 0
    wait_until(lambda: status(cluster)["offline"] == [], within=20, every=0.5)
    everything = [v for n in range(6) for v in values_in(cluster.brokers[2].bootstrap, "grown", n)]
    assert sorted(map(int, filter(None, everything))) == list(range(600))
