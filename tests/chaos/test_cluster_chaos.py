"""Three brokers and three etcd members under mixed faults: nothing acknowledged is lost or doubled.

Each fault strikes while acknowledgements flow. The short run belongs to every `make test`, the long
ones to `make chaos`: together over 400 faults, at least 20 of each kind. What the long ones found
so far is added up in `build/chaos`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.chaos_report import Totals
from support.chaos_run import ChaosRun, judge
from support.netns_cluster import NetworkCluster, network_cluster

SEEDS = range(1, 11)
ACKED_IN_EACH = 100_000
IN_EACH = {
    "leader killed": 4,
    "leader restarted": 3,
    "follower killed": 2,
    "all brokers killed": 2,
    "leader paused": 2,
    "leader cut off from etcd": 2,
    "leader cut off from brokers": 2,
    "leader cut off from everyone": 2,
    "leader not heard": 2,
    "leader hears nobody": 2,
    "clients cut off from leader": 2,
    "two brokers cut from each other": 2,
    "etcd member killed": 2,
    "etcd leader killed": 2,
    "etcd split, its leader alone": 2,
    "all of etcd killed": 2,
    "leader's disk does not sync": 2,
    "leader's disk is full": 2,
    "leader loses power": 2,
    "two brokers lose power": 2,
    "all brokers lose power": 2,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NetworkCluster]:
    with network_cluster(tmp_path, has_disks=True) as made:
        yield made


@pytest.mark.timeout(300)
def test_nothing_is_lost_whatever_is_killed_paused_or_cut(cluster: NetworkCluster) -> None:
    run = ChaosRun(cluster, seed=1, pace=1000)
    run.strike(
        [
            "leader killed",
            "leader paused",
            "leader cut off from everyone",
            "etcd leader killed",
            "leader not heard",
            "all brokers lose power",
        ]
    )
    report = run.check(min_acked=6000)
    print(Totals.of(report, run.silences()))
    report.assert_passed()


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS, ids="seed-{}".format)
def test_dozens_of_faults_of_every_kind(cluster: NetworkCluster, seed: int) -> None:
    kinds = [kind for kind, times in IN_EACH.items() for _ in range(times)]
    random.Random(seed).shuffle(kinds)
    run = ChaosRun(cluster, seed, pace=750)
    run.strike(kinds)
    judge(run, f"faults-{seed}", min_acked=ACKED_IN_EACH)
