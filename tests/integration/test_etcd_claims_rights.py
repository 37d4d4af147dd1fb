"""A user of etcd whose rights cover the queue's prefix only, and what it can do: everything."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus.cli.entry import run
from nexus.etcd import Client, Put
from nexus.etcd.address import parse_etcd_address
from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.compaction import Compactor, History
from nexus.queue.etcd.worker import Worker
from nexus.queue.opening import open_publisher
from nexus.queue.port import Message
from support.etcd import EtcdMember
from support.needs import need_program
from support.waiting import wait_until

Out = pytest.CaptureFixture[str]
PAGE = Path(__file__).parents[2] / "docs" / "etcd.md"
PASSWORD = "queue-secret"


def documented_rights() -> list[str]:
    """The lines on the page that make such a user."""
    lines = PAGE.read_text().replace("PASSWORD", PASSWORD).splitlines()
    return [line for line in lines if line.startswith(("etcdctl role ", "etcdctl user "))]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    need_program("etcdctl")
    member = EtcdMember(tmp_path_factory.mktemp("etcd")).start()
    root = ["etcdctl user add root:root-secret", "etcdctl user grant-role root root"]
    script = "\n".join(["set -e", *root, *documented_rights(), "etcdctl auth enable"])
    environ = {"PATH": os.environ["PATH"], "ETCDCTL_API": "3"}
    environ["ETCDCTL_ENDPOINTS"] = member.endpoint
    subprocess.run(["bash", "-c", script], env=environ, check=True, capture_output=True, timeout=30)
    yield f"etcd://nexus@{member.endpoint}/telemetry/queue"
    member.kill()


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCD_PASSWORD", PASSWORD)


def as_json(capsys: Out, *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


async def compacted(client: Client) -> int:
    key = b"/telemetry/queue.meta/config"
    compactor = Compactor(client, key, History(keep_s=0, changes=1))
    await compactor.step()
    return compactor.compacted


def test_such_a_user_publishes_claims_stores_and_compacts(address: str, capsys: Out) -> None:
    publisher = open_publisher(address)
    publisher.publish([Message(b'{"n": %d}' % n) for n in range(20)], lambda _: None)
    assert publisher.flush(20) == 0
    publisher.close()
    with Worker(address) as worker:
        taken: list[bytes] = []

        def take() -> bool:
            claims = worker.claim(100, wait_s=1)
            puts = [Put(b"/telemetry/results/%d" % each.revision) for each in claims[:1]]
            worker.ack(claims, puts)
            taken.extend(each.value for each in claims)
            return len(taken) == 20

        wait_until(take)
    with BlockingClient(parse_etcd_address(address).config()) as etcd:
        assert etcd.run(compacted) == 1
    found = as_json(capsys, "queue", "depth", "--queue", address)
    assert (found["waiting"], found["taken"]["keys"], found["expired"]) == (0, 20, 0)


def test_such_a_user_is_told_that_only_root_may_defragment(address: str, capsys: Out) -> None:
    assert as_json(capsys, "queue", "doctor", "--queue", address)["ok"]
    said = as_json(capsys, "queue", "doctor", "--recover", "--yes", "--queue", address, code=1)
    assert "only etcd's user root may defragment" in str(said["steps"])


def test_a_wrong_password_is_one_clear_line(
    address: str, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETCD_PASSWORD", "wrong")
    assert run(["queue", "depth", "--queue", address]) == 1
    assert "authentication failed" in capsys.readouterr().err
