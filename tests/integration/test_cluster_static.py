"""Three brokers on a fixed list: each partition on one of them, and nothing else needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from support.cluster import BrokerCluster
from support.confluent import producer_of, values_in
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    made = BrokerCluster(Path(tmp_path_factory.mktemp("static")), is_static=True)
    try:
        yield made.start()
    finally:
        made.stop()


def test_each_partition_is_on_one_broker_and_waits_for_it(cluster: BrokerCluster) -> None:
    cluster.admin.create_topics([NewTopic("spread", 12, 1)])["spread"].result(20)
    wait_until(lambda: len(cluster.partitions("spread")) == 12, within=10, what="the topic")
    parts = cluster.partitions("spread")
    assert {p.leader for p in parts.values()} == {1, 2, 3}
    producer = producer_of(cluster.bootstrap, **{"enable.idempotence": True})
    for number in range(240):
        producer.produce("spread", b"%d" % number, partition=number % 12)
    assert producer.flush(30) == 0
    for number in range(12):
        logs = [
            node
            for node, broker in cluster.brokers.items()
            if (broker.data_dir / "topics" / "spread" / f"partition-{number}").exists()
        ]
        assert logs == [parts[number].leader]

    # While its owner is away a partition is nowhere else, and it is all there afterwards.
    owner = parts[0].leader
    cluster.brokers[owner].kill()
    assert cluster.partitions("spread")[0].leader == owner
    cluster.brokers[owner].spawn()
    cluster.brokers[owner].wait_ready(within=60)
    found = [v for n in range(12) for v in values_in(cluster.bootstrap, "spread", n)]
    assert sorted(map(int, filter(None, found))) == list(range(240))


def test_a_broker_that_was_away_learns_of_new_topics(cluster: BrokerCluster) -> None:
    assert cluster.brokers[3].stop() == 0
    admin = cluster.admin
    admin.create_topics([NewTopic("later", 6, 1)])["later"].result(30)
    cluster.brokers[3].spawn()
    cluster.brokers[3].wait_ready(within=60)
    producer = producer_of(cluster.brokers[3].bootstrap)
    for number in range(60):
        producer.produce("later", b"%d" % number, partition=number % 6)
    assert producer.flush(30) == 0
