"""Moves keep to a limit that may change meanwhile, and plans follow the load that is measured."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from support.broker import BrokerProcess
from support.cluster import BrokerCluster
from support.commands import RUN, nexus_cluster
from support.confluent import producer_of
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)
LIMIT = 256 << 10
SIZE = 6 << 20


class Limited(BrokerCluster):
    """Two brokers; what is not in sync yet is copied slowly."""

    def make(self, node: int) -> BrokerProcess:
        made = super().make(node)
        extra = f"\n  report_interval: 300ms\n  move_rate: {LIMIT}\nreplication:"
        made.settings = made.settings.replace("\nreplication:", extra)
        return made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    made = Limited(Path(tmp_path_factory.mktemp("moves")), count=2, replication=1, least=1)
    try:
        yield made.start()
    finally:
        made.stop()


def made_on(cluster: BrokerCluster, topic: str, replicas: list[list[int]]) -> None:
    wanted = NewTopic(topic, len(replicas), replica_assignment=replicas)
    cluster.admin.create_topics([wanted])[topic].result(20)
    wait_until(lambda: len(cluster.partitions(topic)) == len(replicas), within=20)


def size_of(broker: BrokerProcess, topic: str) -> int:
    place = broker.data_dir / "topics" / topic / "partition-0"
    return sum(path.stat().st_size for path in place.glob("*.log"))


def test_skewed_load_is_measured_and_planned_for(cluster: BrokerCluster) -> None:
    made_on(cluster, "skewed", [[1], [1], [1], [1]])
    producer = producer_of(cluster.bootstrap)

    def planned() -> list[tuple[int, ...]]:
        for number in range(400):
            producer.produce("skewed", b"x" * 2000, partition=number % 4)
        producer.flush(20)
        plan = json.loads(
            nexus_cluster(cluster.etcd.endpoint, "plan", "--strategy", "dynamic", "--json")
        )
        return [tuple(one["after"]) for one in plan["changes"] if one["topic"] == "skewed"]

    wait_until(lambda: planned() == [(2,), (2,)], within=60, every=0.2, what="two moves")
    said = nexus_cluster(cluster.etcd.endpoint, "status", "--json")
    brokers = {one["id"]: one for one in json.loads(said)["brokers"]}
    assert brokers[1]["bytes_in"] > brokers[2]["bytes_in"]


def test_a_move_keeps_to_its_limit_until_that_is_lifted(cluster: BrokerCluster) -> None:
    made_on(cluster, "large", [[1]])
    # Small batches: one is copied whole, whatever the limit.
    producer = producer_of(cluster.bootstrap, **{"batch.num.messages": 5})
    for _ in range(SIZE // 10_000):
        producer.produce("large", b"x" * 10_000, partition=0)
    assert producer.flush(60) == 0

    target = cluster.brokers[2]
    words = ["drain", "1", "--set", f"cluster.etcd_endpoints={cluster.etcd.endpoint}"]
    draining = subprocess.Popen(
        [sys.executable, "-c", RUN, *words], stdout=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: size_of(target, "large") > 0, within=60, what="the move to begin")
        began, first = time.monotonic(), size_of(target, "large")
        wait_until(lambda: size_of(target, "large") > first + 2 * LIMIT, within=60)
        # A second's worth may be saved up; beyond that no more than the limit, with some slack.
        here, seconds = size_of(target, "large"), time.monotonic() - began
        assert (here - first) / (LIMIT * (seconds + 1)) < 1.5
        assert here < SIZE / 2

        path = target.directory / "broker.yaml"
        path.write_text(path.read_text().replace(f"move_rate: {LIMIT}", "move_rate: -1"))
        assert target.process is not None
        target.process.send_signal(signal.SIGHUP)
        said, _ = draining.communicate(timeout=90)
    finally:
        draining.kill()
        draining.wait()
    assert "copied" in said
    assert "s left" in said
    assert "broker 1 holds nothing" in said
    assert size_of(target, "large") > SIZE * 0.9
