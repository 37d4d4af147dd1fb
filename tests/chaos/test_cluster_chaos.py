"""Three brokers and three etcd members under mixed faults: nothing acknowledged is lost or doubled.

Each fault strikes while acknowledgements flow. The short run belongs to every `make test`, the long
ones to `make chaos`: together over 300 faults, at least 20 of each kind. What the long ones found
so far is added up in `build/chaos`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.chaos_report import Totals
from support.chaos_run import ChaosRun
from support.netns_cluster import NetworkCluster, network_cluster

REPORTS = Path(__file__).parents[2] / "build" / "chaos"
SEEDS = (1, 2, 3, 4)
ACKED_IN_EACH = 250_000
IN_EACH = {
    "leader killed": 9,
    "leader restarted": 8,
    "follower killed": 5,
    "all brokers killed": 5,
    "leader paused": 5,
    "leader cut off from etcd": 5,
    "leader cut off from brokers": 5,
    "leader cut off from everyone": 5,
    "leader not heard": 5,
    "leader hears nobody": 5,
    "clients cut off from leader": 5,
    "two brokers cut from each other": 5,
    "etcd member killed": 5,
    "etcd leader killed": 5,
    "etcd split, its leader alone": 5,
    "all of etcd killed": 5,
}
ONE_DIES = {"leader killed", "follower killed"}
ONE_IS_SILENT = {kind for kind in IN_EACH if kind.startswith(("leader cut", "leader paused"))}
IS_HEARD_ONE_WAY = {"leader not heard", "leader hears nobody"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NetworkCluster]:
    with network_cluster(tmp_path) as made:
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
            "all brokers killed",
        ]
    )
    report = run.judge(min_acked=6000)
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
    report = run.judge(min_acked=ACKED_IN_EACH)
    found = Totals.of(report, run.silences())
    found.save(REPORTS / f"faults-{seed}.json")
    print(found)
    print("all runs so far:", Totals.sum(map(Totals.load, sorted(REPORTS.glob("*.json")))))
    report.assert_passed()
    assert max(map(found.late, ONE_DIES)) < 5
    assert max(map(found.late, ONE_IS_SILENT | IS_HEARD_ONE_WAY)) < 10
