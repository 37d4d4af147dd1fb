"""Three brokers on a fixed list: each partition on one of them, and nothing else needed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from support.broker import BrokerProcess
from support.cluster import BrokerCluster
from support.confluent import admin_of, producer_of, values_in
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


def test_a_fourth_broker_takes_its_share_without_a_restart(cluster: BrokerCluster) -> None:
    cluster.admin.create_topics([NewTopic("grown", 24, 1)])["grown"].result(30)
    wait_until(lambda: len(cluster.partitions("grown")) == 24, within=20, what="the topic")
    before = {number: part.leader for number, part in cluster.partitions("grown").items()}
    write(cluster.bootstrap, "grown", 24, b"before")

    fourth = cluster.brokers[4] = cluster.make(4)
    peers = ", ".join(f"{n}@{b.bootstrap}" for n, b in cluster.brokers.items())
    fourth.settings = fourth.settings.replace("PEERS", peers)
    fourth.spawn()
    fourth.wait_ready(within=60)
    for node in (1, 2, 3):
        reload_with(cluster.brokers[node], peers)
    wait_until(
        lambda: all(seen(broker) == [1, 2, 3, 4] for broker in cluster.brokers.values()),
        within=30,
        what="all four to be seen by all",
    )
    owners = {
        node: wait_until(partial(owners_by, broker, "grown"), within=30)
        for node, broker in cluster.brokers.items()
    }
    assert owners[1] == owners[2] == owners[3] == owners[4], "the same function everywhere"
    moved = {number for number, owner in owners[1].items() if owner != before[number]}
    assert moved, "the new broker got something"
    assert {owners[1][number] for number in moved} == {4}, "and only it did"

    write(cluster.bootstrap, "grown", 24, b"after")
    for number in range(24):
        expected = [b"after"] if number in moved else [b"before", b"after"]
        assert values_in(cluster.bootstrap, "grown", number) == expected
    # What the old owners held stays on their disks, and they say so.
    for number in moved:
        old = cluster.brokers[before[number]]
        assert (old.data_dir / "topics" / "grown" / f"partition-{number}").exists()
        assert "it is kept, and not served" in old.stderr


def write(bootstrap: str, topic: str, partitions: int, value: bytes) -> None:
    producer = producer_of(bootstrap)
    for number in range(partitions):
        producer.produce(topic, value, partition=number)
    assert producer.flush(30) == 0


def reload_with(broker: BrokerProcess, peers: str) -> None:
    """Write another list into the settings file, and tell the broker to read it."""
    path = broker.directory / "broker.yaml"
    head, _, rest = path.read_text().partition("peers: [")
    path.write_text(f"{head}peers: [{peers}{rest[rest.index(']') :]}")
    assert broker.process is not None
    broker.process.send_signal(signal.SIGHUP)


def seen(broker: BrokerProcess) -> list[int]:
    found: list[int] = broker.health()["cluster"]["brokers"]
    return found


def owners_by(broker: BrokerProcess, topic: str) -> dict[int, int]:
    """Who owns each partition, if one asks this broker."""
    found = admin_of(broker.bootstrap).list_topics(topic, timeout=10).topics[topic].partitions
    return {number: part.leader for number, part in found.items()}
