"""A group reads while its members come and go and its coordinator dies: it skips nothing."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import NewTopic

from support.history import Outcome
from support.netns_cluster import NetworkCluster, network_cluster
from support.waiting import wait_until
from support.workload import Workload

TOPIC = "read-by-many"
GROUP = "many"
PARTITIONS = 6
ROUNDS = 20
SETTINGS = {
    "group.id": GROUP,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
    "reconnect.backoff.max.ms": 200,
    "socket.timeout.ms": 5000,
    "log_level": 0,
}

Place = tuple[int, int]  # partition and offset


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NetworkCluster]:
    with network_cluster(tmp_path) as made:
        yield made


class MemberThread:
    """Notes what it reads, and only then commits it."""

    def __init__(self, bootstrap: str, seen: set[Place]) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **SETTINGS})
        self._consumer.subscribe([TOPIC])
        self._seen = seen
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            batch = [m for m in self._consumer.consume(100, timeout=0.2) if m.error() is None]
            self._seen.update((m.partition() or 0, m.offset() or 0) for m in batch)
            if batch:
                try:
                    self._consumer.commit(asynchronous=False)
                except KafkaException:
                    # Another owns it now, or nobody can say: it is read again.
                    continue

    def leave(self, *, politely: bool) -> None:
        """End; without a word the others learn it when its session ends."""
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if politely:
            self._consumer.close()


def owners(cluster: NetworkCluster) -> Counter[int]:
    """How many members own each partition, as the coordinator says; empty while it says nothing."""
    try:
        told = cluster.admin.describe_consumer_groups([GROUP], request_timeout=5)[GROUP].result(10)
    except KafkaException:
        return Counter()
    return Counter(
        one.partition for member in told.members for one in member.assignment.topic_partitions
    )


def coordinator(cluster: NetworkCluster) -> int:
    def found() -> int:
        try:
            told = cluster.admin.describe_consumer_groups([GROUP], request_timeout=5)
            return int(told[GROUP].result(10).coordinator.id)
        except KafkaException:
            return 0

    return wait_until(found, within=60, what="a coordinator")


def churn(cluster: NetworkCluster, members: list[MemberThread], seen: set[Place]) -> None:
    """Let members and coordinators go, and others come; a partition never has two owners."""
    chance = random.Random(1)
    for number in range(ROUNDS):
        wanted = len(seen) + 500
        node = coordinator(cluster)
        if number % 2:
            cluster.brokers[node].kill()
        members.pop(chance.randrange(len(members))).leave(politely=chance.random() < 0.7)
        members.append(MemberThread(cluster.bootstrap, seen))
        _wait_read(seen, wanted)
        if number % 2:
            cluster.start_brokers([node])
        cluster.wait_in_sync("__consumer_offsets")
        assert max(owners(cluster).values(), default=0) <= 1


def _wait_read(seen: set[Place], wanted: int) -> None:
    wait_until(lambda: len(seen) >= wanted, within=60, what="reads to go on")


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_a_group_skips_nothing_while_members_and_coordinators_go(cluster: NetworkCluster) -> None:
    cluster.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    seen: set[Place] = set()
    members = [MemberThread(cluster.bootstrap, seen) for _ in range(3)]
    with Workload(
        cluster.bootstrap, TOPIC, partitions=PARTITIONS, producers=1, pace=1000
    ) as workload:
        workload.wait_acknowledged(1000)
        churn(cluster, members, seen)
    acked = {(e.partition, e.offset) for e in workload.history if e.outcome is Outcome.OK}
    wait_until(lambda: acked <= seen, within=60, what="all to be read", every=0.5)
    for member in members:
        member.leave(politely=True)
    print(f"{len(acked):,} acknowledged, and all read by the group over {ROUNDS} changes")
