"""Ten static brokers with fifty partitions: written, taken, and shown in one screen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from nexus.cli.entry import run
from support.cluster import BrokerCluster
from support.proxies import ProxyProcess
from support.taking import take_all

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

BROKERS, PARTITIONS = 10, 50
LINES, COLUMNS = 50, 132  # of a screen


def test_ten_brokers_with_fifty_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = BrokerCluster(tmp_path / "static", count=BROKERS, is_static=True)
    environ = {"MAX_PARTITIONS": str(PARTITIONS), "HEALTH_INTERVAL_SECONDS": "1"}
    proxy = ProxyProcess(tmp_path / "proxy", cluster.bootstrap, ("--mode", "static"), environ)
    try:
        cluster.start()
        proxy.brokers = cluster.bootstrap
        proxy.start()
        items = [{"payload": n, "key": f"k{n}"} for n in range(1_000)]
        answer = proxy.post("/produce/batch?topic=wide", json=items)
        assert answer.status_code == 200, answer.text
        taken = take_all(proxy, "wide", len(items))
        assert {one["partition"] for one in taken} == set(range(PARTITIONS))

        status = proxy.get("/status").json()
        owners = status["topics"]["wide"]["owners"]
        assert (len(owners), len(set(owners))) == (PARTITIONS, BROKERS)
        owned = Counter(o for topic in status["topics"].values() for o in topic["owners"])
        assert {one["id"]: one["partitions"] for one in status["brokers"]} == owned

        capsys.readouterr()
        assert run(["proxy", "status", "--url", proxy.url]) == 0
        screen = capsys.readouterr().out.splitlines()
        assert len(screen) <= LINES
        assert max(map(len, screen)) <= COLUMNS
        assert sum("closed" in line for line in screen) == BROKERS
        assert "Traceback" not in proxy.said
    finally:
        proxy.stop()
        cluster.stop()
