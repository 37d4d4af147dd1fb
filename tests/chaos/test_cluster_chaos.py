"""Three brokers and etcd under mixed faults: nothing acknowledged is lost, repeated or taken back.

Each fault strikes while acknowledgements flow. The short run belongs to every `make test`, the long
one to `make chaos`.
"""

from __future__ import annotations

import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from support.checker import check
from support.cluster import BrokerCluster
from support.workload import OUTSTANDING_MAX, Workload

TOPIC = "chaos"
PARTITIONS = 6
PRODUCERS = 2
# More than can be on its way past a partition that stands still.
RESUMED = OUTSTANDING_MAX * PRODUCERS + 200
PAUSE_SECONDS = 4.0  # past the lease

Silences = dict[str, list[float]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    made = BrokerCluster(tmp_path)
    try:
        yield made.start()
    finally:
        made.stop()


class Faults:
    """What can go wrong with a broker, and how it is put right."""

    def __init__(self, cluster: BrokerCluster, chance: random.Random) -> None:
        self._cluster = cluster
        self._chance = chance
        self.kinds: dict[str, Callable[[], Callable[[], None]]] = {
            "leader killed": lambda: self._kill(self._leader()),
            "follower killed": lambda: self._kill(self._follower()),
            "leader paused": lambda: self._pause(self._leader()),
            "etcd killed": self._kill_etcd,
            "all killed": self._kill_all,
        }

    def _leader(self) -> int:
        return self._cluster.leader(TOPIC, self._chance.randrange(PARTITIONS))

    def _follower(self) -> int:
        leader = self._cluster.leader(TOPIC, 0)
        return self._chance.choice([n for n in self._cluster.brokers if n != leader])

    def _kill(self, node: int) -> Callable[[], None]:
        self._cluster.brokers[node].kill()
        return lambda: self._start(node)

    def _kill_all(self) -> Callable[[], None]:
        for broker in self._cluster.brokers.values():
            broker.kill()
        for node in self._cluster.brokers:
            self._start(node)
        return lambda: None

    def _pause(self, node: int) -> Callable[[], None]:
        process = self._cluster.brokers[node].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        paused_at = time.monotonic()

        def resume() -> None:
            time.sleep(max(0.0, paused_at + PAUSE_SECONDS - time.monotonic()))
            process.send_signal(signal.SIGCONT)

        return resume

    def _kill_etcd(self) -> Callable[[], None]:
        self._cluster.etcd.kill()
        time.sleep(self._chance.uniform(0.5, 5.0))
        self._cluster.etcd.start()
        return lambda: None

    def _start(self, node: int) -> None:
        self._cluster.brokers[node].spawn()
        self._cluster.brokers[node].wait_ready(within=60)


def run(cluster: BrokerCluster, kinds: list[str], seed: int) -> tuple[Workload, Silences]:
    """Let faults of these kinds strike one after the other; how long writes stood still."""
    faults = Faults(cluster, random.Random(seed))
    cluster.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    silences: Silences = defaultdict(list)
    with Workload(cluster.bootstrap, TOPIC, partitions=PARTITIONS, producers=PRODUCERS) as workload:
        for kind in kinds:
            cluster.wait_in_sync(TOPIC, within=60)
            workload.wait_acknowledged(RESUMED)
            struck_at = time.monotonic()
            heal = faults.kinds[kind]()
            workload.wait_acknowledged(RESUMED)
            silences[kind].append(time.monotonic() - struck_at)
            heal()
        cluster.wait_in_sync(TOPIC, within=60)
        workload.wait_acknowledged(RESUMED)
    return workload, silences


def judge(cluster: BrokerCluster, workload: Workload, silences: Silences) -> None:
    report = check(workload.history, workload.read_back(), min_acked=5000, min_ack_rate=0.95)
    print(report)
    for kind, seconds in sorted(silences.items()):
        seconds.sort()
        late = seconds[int(len(seconds) * 0.95)]
        print(f"{kind}: {len(seconds)}, p95 {late:.2f} s, worst {seconds[-1]:.2f} s")
    report.assert_passed()
    for broker in cluster.brokers.values():
        assert broker.faults() == []
        assert broker.stop() == 0
    for partition in range(PARTITIONS):
        assert len(contents(cluster, partition)) == 1, f"replicas of {partition} differ"


def contents(cluster: BrokerCluster, partition: int) -> set[str]:
    """What the replicas of a partition hold, byte by byte."""
    found = set()
    for broker in cluster.brokers.values():
        place = broker.data_dir / "topics" / TOPIC / f"partition-{partition}"
        logs = [file.read_bytes() for file in sorted(place.glob("*.log"))]
        found.add(sha256(b"".join(logs)).hexdigest())
    return found


@pytest.mark.timeout(300)
def test_nothing_is_lost_when_brokers_and_etcd_die(cluster: BrokerCluster) -> None:
    kinds = ["leader killed", "leader paused", "etcd killed", "follower killed", "all killed"]
    workload, silences = run(cluster, kinds, seed=1)
    judge(cluster, workload, silences)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_hundreds_of_faults(cluster: BrokerCluster) -> None:
    kinds = ["leader killed"] * 80 + ["leader paused"] * 40 + ["etcd killed"] * 30
    kinds += ["follower killed"] * 30 + ["all killed"] * 20
    random.Random(7).shuffle(kinds)
    workload, silences = run(cluster, kinds, seed=7)
    judge(cluster, workload, silences)
    assert sorted(silences["leader killed"])[76] < 5
