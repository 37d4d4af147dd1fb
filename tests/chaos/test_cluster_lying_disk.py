"""The control of all power cuts of a cluster: what was not synced is gone, and that is found.

Each broker's disk is an ext4 file system in a file. A cut stops the broker in mid-step, copies the
file as it is then, and goes on from the copy. Here the kernel only says that it synced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from support.checker import Defect, check
from support.netns_cluster import NetworkCluster, network_cluster
from support.tracing import LYING_SYNCS, traced
from support.workload import Workload

ACKS = 1000
TRIES = 5


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NetworkCluster]:
    with network_cluster(tmp_path, has_disks=True) as made:
        yield made


def lost_in_a_cut(cluster: NetworkCluster, topic: str) -> int:
    """What is lost when every broker was told that its disk had synced, and it had not."""
    cluster.admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(30)
    cluster.wait_in_sync(topic)
    with ExitStack() as liars:
        for node, broker in cluster.brokers.items():
            output = cluster.directory / f"{topic}-{node}.strace"
            liars.enter_context(traced(broker.pid, output, *LYING_SYNCS))
        with Workload(cluster.bootstrap, topic, partitions=1, producers=1) as workload:
            workload.wait_acknowledged(ACKS)
        cluster.cut_power(cluster.brokers)
    cluster.start_brokers(cluster.brokers)
    cluster.wait_in_sync(topic)
    report = check(workload.history, workload.read_back(), min_acked=ACKS)
    return report.counts[Defect.LOST]


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_the_checker_finds_what_a_lying_disk_lost(cluster: NetworkCluster) -> None:
    """The kernel may write by itself at any moment, and so hide the loss: it gets a few tries."""
    tries = (lost_in_a_cut(cluster, f"lied-{number}") for number in range(TRIES))
    assert any(lost > 0 for lost in tries)
