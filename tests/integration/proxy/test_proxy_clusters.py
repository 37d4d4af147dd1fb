"""Proxies before several brokers: three on a fixed list, three that agree by etcd."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.cluster.assignment.port import Node, Wanted
from nexus.cluster.assignment.ring import RingStrategy
from nexus.queue.partitioners import murmur2
from support.cluster import START_SECONDS, BrokerCluster
from support.confluent import values_in
from support.proxies import Proxies, ProxyProcess, two_proxies
from support.proxy_load import Load
from support.queue_run import QueueRun, judge
from support.taking import take_all
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


def everything(cluster: BrokerCluster, topic: str, partitions: int) -> list[list[bytes | None]]:
    return [values_in(cluster.bootstrap, topic, number) for number in range(partitions)]


@pytest.fixture
def static(tmp_path: Path) -> Iterator[tuple[BrokerCluster, ProxyProcess]]:
    made = BrokerCluster(tmp_path / "static", is_static=True)
    often = {"HEALTH_INTERVAL_SECONDS": "1", "NEXUS_PROXY_REQUEST_TIMEOUT": "5s"}
    proxy: ProxyProcess | None = None
    try:
        made.start()
        flags = ("--mode", "static")
        proxy = ProxyProcess(tmp_path / "proxy", made.bootstrap, flags, often).start()
        yield made, proxy
        assert "Traceback" not in proxy.said
    finally:
        if proxy is not None:
            proxy.stop()
        made.stop()


def test_static_owners_follow_the_ring_and_keys_go_on_while_one_is_down(
    static: tuple[BrokerCluster, ProxyProcess],
) -> None:
    cluster, proxy = static
    proxy.produce("ring", "x")
    owners = proxy.get("/status").json()["topics"]["ring"]["owners"]
    ring = RingStrategy(slack=float("inf"))
    nodes = [Node(node) for node in (1, 2, 3)]
    assert owners == [one[0] for one in ring.assign(Wanted("ring", 12), nodes)]
    assert "another one" not in proxy.said  # the proxy's own reckoning agrees

    down = owners[0]
    key = next(f"k{n}" for n in range(10_000) if murmur2(b"k%d" % n) % 12 == 0)
    cluster.brokers[down].kill()
    moved = proxy.produce("ring", "moved", key=key)
    assert moved["home_partition"] == 0
    assert owners[moved["partition"]] != down
    again = proxy.produce("ring", "moved", key=key)
    assert again["partition"] == moved["partition"]
    (value, *_) = values_in(cluster.bootstrap, "ring", moved["partition"])[-1:]
    assert value == b'"moved"'
    pinned = proxy.post("/produce?topic=ring&partition=0", json={"payload": 1}, headers={})
    assert pinned.status_code in (503, 504)

    cluster.brokers[down].spawn()
    cluster.brokers[down].wait_ready(within=60)

    def is_at_home() -> bool:
        return bool(proxy.produce("ring", "home", key=key)["partition"] == 0)

    wait_until(is_at_home, within=60, what="the key at home again")
    taken = take_all(proxy, "ring", sum(map(len, everything(cluster, "ring", 12))))
    homes = {one["headers"].get("home-partition") for one in taken if one["payload"] == "moved"}
    assert homes == {"0"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerCluster, Proxies]]:
    folder = tmp_path_factory.mktemp("proxied-cluster")
    made = BrokerCluster(folder / "cluster")
    try:
        made.start()
        with two_proxies(folder, made.bootstrap) as proxies:
            yield made, proxies
    finally:
        made.stop()


def test_no_request_fails_when_a_leader_is_killed_and_none_is_written_twice(
    cluster: tuple[BrokerCluster, Proxies],
) -> None:
    brokers, proxies = cluster
    wanted = {"name": "moving", "partitions": 3, "replication": 3}
    assert proxies[0].post("/topics", json=wanted).status_code == 201
    brokers.wait_in_sync("moving", within=60)
    load = Load(proxies, "moving")
    with load.running(4):
        wait_until(lambda: len(load.written) > 50, within=60, what="messages to flow")
        killed = brokers.leader("moving", 0)
        struck = time.monotonic()
        brokers.brokers[killed].kill()
        so_far = len(load.written)
        wait_until(lambda: len(load.written) > so_far + 200, within=90, what="them to go on")
    print(f"no answer for {load.silence(struck):.2f} s when a leader was killed")
    assert load.refused == []
    assert all("a partition moved" in proxy.said for proxy in proxies)
    found = [int(v or b"") for part in everything(brokers, "moving", 3) for v in part]
    assert sorted(found) == sorted(load.written)
    brokers.brokers[killed].spawn()
    brokers.brokers[killed].wait_ready(within=START_SECONDS)


@pytest.mark.timeout(400)
def test_none_is_lost_and_none_comes_after_its_acknowledgement(
    cluster: tuple[BrokerCluster, Proxies], tmp_path: Path
) -> None:
    run = QueueRun(*cluster, tmp_path, count=2_000, seed=1)
    run.work(["proxy killed", "consumer killed", "leader killed"], workers=3)
    judge(run)
    for broker in cluster[0].brokers.values():
        assert broker.faults() == []
