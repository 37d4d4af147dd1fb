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

SEEDS = range(1, 21)
ACKED_IN_EACH = 50_000
KINDS = (
    *("leader killed", "leader killed", "follower killed", "all brokers killed"),
    *("leader paused", "leader restarted", "leader restarted"),
    *("leader cut off from etcd", "leader cut off from brokers", "leader cut off from everyone"),
    *("leader not heard", "leader hears nobody", "clients cut off from leader"),
    *("two brokers cut from each other", "etcd split, its leader alone"),
    *("etcd member killed", "etcd leader killed", "all of etcd killed"),
    *("leader's disk does not sync", "leader's disk is full"),
    *("leader loses power", "two brokers lose power", "all brokers lose power"),
)


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
def test_faults_of_every_kind_in_any_order(cluster: NetworkCluster, seed: int) -> None:
    kinds = random.Random(seed).sample(KINDS, len(KINDS))
    run = ChaosRun(cluster, seed, pace=750)
    run.strike(kinds)
    judge(run, f"faults-{seed}", min_acked=ACKED_IN_EACH)
