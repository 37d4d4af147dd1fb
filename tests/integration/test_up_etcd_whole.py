"""All of it in one etcd, Spark included: from a simulated fleet to the gateway, and a clean end.

One start of Spark is dear, so this is one story.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus.etcd import EtcdConfig, Get, Keys
from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.counts import totals
from nexus.queue.etcd.layout import Layout
from support.needs import need_program
from support.ports import free_port
from support.ups import UpProcess
from support.waiting import wait_until

FLEET = "sim://?hosts=1&gpus=4&interval=500ms&faults=none"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpProcess]:
    need_program("etcd")
    ports = {name: free_port() for name in ("etcd", "streamer", "collector", "dashboard")}
    flags = ("--queue", "etcd", "--store", "etcd", "--source", FLEET)
    made = UpProcess(tmp_path, flags, ports)
    yield made
    made.kill_all()


def get(up: UpProcess, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{up.dashboard}/api/v1/{path}", timeout=10) as answer:
        document: dict[str, Any] = json.loads(answer.read())
    return document


@pytest.mark.timeout(300)
def test_queue_and_store_in_one_etcd_from_the_start_to_the_end(up: UpProcess) -> None:
    up.start()
    up.wait_told("rows", within=200)
    up.wait_told("up", within=100)
    names = {told["name"] for told in up.told("ready")}
    assert names == {"etcd", "collector", "streamer", "gateway"}

    # What the gateway serves is what lies in etcd.
    assert get(up, "gpus")["count"] == 4
    assert get(up, "telemetry/latest?limit=10")["count"] == 10
    queue = get(up, "queue")
    assert (queue["reachable"], queue["expired"]) == (True, 0)
    assert [group["group"] for group in queue["groups"]] == ["collectors all"]

    # etcd dies under all of them, and everything goes on.
    os.kill(up.pid_of("etcd"), signal.SIGKILL)
    up.wait_told("ready", name="etcd", again=True)
    before = wait_until(lambda: get(up, "queue")["taken"], within=60, what="a queue that answers")
    wait_until(lambda: get(up, "queue")["taken"] > before, within=90, what="messages stored again")

    # Ctrl-C: in order, in time, and nobody stays.
    assert up.stop(signal.SIGINT) == 0, up.words()
    up.wait_gone(within=15)
    order = [told["name"] for told in up.told("ended")]
    assert order == ["streamer", "collector", "gateway", "etcd"]
    (summary,) = up.told("summary")
    assert summary["stop_seconds"] <= 15, up.words()
    assert summary["readings_stored"] > 0

    # The next start finds readings and counts that agree: nothing was lost, nothing is left over.
    up.flags = ("--queue", "etcd", "--no-collector", "--no-gateway", "--source", "nvml://")
    up.start().wait_told("ready", name="etcd")
    with BlockingClient(EtcdConfig((f"127.0.0.1:{up.ports['etcd']}",))) as client:
        counts = client.run(lambda c: totals(c, Layout()))
        stored = client.range(Get(Keys.prefix(b"/telemetry/clusters/"), keys_only=True))
    assert (counts.expired, counts.published.keys) == (0, counts.taken.keys + counts.waiting)
    readings = sum(b"/data/" in item.key for item in stored.items)
    assert readings == counts.taken.messages
    assert up.stop(signal.SIGTERM) == 0
