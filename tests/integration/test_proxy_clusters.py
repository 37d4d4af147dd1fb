"""Proxies before several brokers: three on a fixed list, three that agree by etcd."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from nexus.cluster.assignment.port import Node, Wanted
from nexus.cluster.assignment.ring import RingStrategy
from nexus.queue.partitioners import murmur2
from support.cluster import BrokerCluster
from support.confluent import values_in
from support.proxies import ProxyProcess
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


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


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[BrokerCluster, ProxyProcess]]:
    made = BrokerCluster(tmp_path / "cluster")
    proxy: ProxyProcess | None = None
    try:
        made.start()
        proxy = ProxyProcess(tmp_path / "proxy", made.bootstrap).start()
        yield made, proxy
        assert "Traceback" not in proxy.said
    finally:
        if proxy is not None:
            proxy.stop()
        made.stop()


def test_no_request_fails_when_a_leader_is_killed_and_none_is_written_twice(
    cluster: tuple[BrokerCluster, ProxyProcess],
) -> None:
    brokers, proxy = cluster
    wanted = {"name": "moving", "partitions": 3, "replication": 3}
    assert proxy.post("/topics", json=wanted).status_code == 201
    brokers.wait_in_sync("moving")
    stopping = threading.Event()
    written: list[int] = []
    refused: list[str] = []

    def send(worker: int) -> None:
        number = 0
        with httpx.Client(base_url=proxy.url, timeout=90) as client:
            while not stopping.is_set():
                payload = worker * 1_000_000 + number
                path = f"/produce?topic=moving&key=k{number}"
                answer = client.post(path, json={"payload": payload})
                if answer.status_code == 200:
                    written.append(payload)
                else:
                    refused.append(answer.text)
                number += 1

    with ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(send, worker) for worker in range(4)]
        wait_until(lambda: len(written) > 50, within=60, what="messages to flow")
        killed = brokers.leader("moving", 0)
        brokers.brokers[killed].kill()
        began = time.monotonic()
        parts = {n for n in range(3) if brokers.leader("moving", n) == killed} or {0}
        so_far = len(written)
        wait_until(lambda: len(written) > so_far + 100, within=60, what="them to go on")
        print(f"partitions {parts} moved, flowing again after {time.monotonic() - began:.1f} s")
        stopping.set()
        for one in sending:
            one.result()
    assert refused == []
    found = [int(v or b"") for n in range(3) for v in values_in(brokers.bootstrap, "moving", n)]
    assert sorted(found) == sorted(written)
