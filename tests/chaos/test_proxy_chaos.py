"""100,000 messages through two proxies while proxies, consumers and brokers are killed: none lost.

Each is acknowledged at the proxy that did not deliver it. What the runs found is added up in
`build/chaos/queue`; the short form of this is among the tests of proxies before a cluster.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.cluster import BrokerCluster
from support.proxies import two_proxies
from support.queue_run import FAULTS, QueueRun, judge

COUNT = 100_000
FAULTS_EACH = 6


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2], ids="seed-{}".format)
def test_none_is_lost_and_none_comes_after_its_acknowledgement(tmp_path: Path, seed: int) -> None:
    faults = list(FAULTS) * FAULTS_EACH
    random.Random(seed).shuffle(faults)
    cluster = BrokerCluster(tmp_path / "cluster")
    try:
        cluster.start()
        with two_proxies(tmp_path, cluster.bootstrap) as proxies:
            run = QueueRun(cluster, proxies, tmp_path / "notes", COUNT, seed)
            run.work(faults, workers=8, between=COUNT // (len(faults) + 4))
            judge(run, f"faults-{seed}")
    finally:
        cluster.stop()
    for broker in cluster.brokers.values():
        assert broker.faults() == []
