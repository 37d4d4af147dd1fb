"""A real `nexus up` on an etcd of its own, without Spark: what it starts, survives and refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.etcd import EtcdConfig
from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.counts import Totals, totals
from nexus.queue.etcd.layout import Layout
from support.broker import NEXUS
from support.etcd import EtcdMember
from support.needs import need_program
from support.ports import free_port
from support.ups import UpProcess
from support.waiting import wait_until

QUEUE = Layout()
SMALL = ("--no-collector", "--no-gateway", "--source", "sim://?hosts=1&gpus=2&interval=200ms")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpProcess]:
    need_program("etcd")
    ports = {name: free_port() for name in ("etcd", "streamer", "dashboard")}
    made = UpProcess(tmp_path, ("--queue", "etcd", *SMALL), ports)
    yield made
    made.kill_all()


def counted(port: int) -> Totals:
    with BlockingClient(EtcdConfig((f"127.0.0.1:{port}",))) as client:
        return client.run(lambda c: totals(c, QUEUE))


def test_it_starts_its_own_etcd_looks_after_it_and_keeps_what_is_in_it(up: UpProcess) -> None:
    # What etcd would take for a flag of its own is kept from it.
    up.environ = {"ETCD_NAME": "somebody", "ETCD_DATA_DIR": "/no/where"}
    up.start().wait_told("up")
    assert [told["name"] for told in up.told("ready")] == ["etcd", "streamer"]
    port = up.ports["etcd"]
    wait_until(lambda: counted(port).waiting > 0, within=30, what="messages in the queue")

    # It is killed and comes back; the streamer waits for it, and nothing is lost.
    streamer = up.pid_of("streamer")
    os.kill(up.pid_of("etcd"), signal.SIGKILL)
    died = up.wait_told("died", name="etcd")
    assert died["log"] == str(up.data_dir / "logs" / "etcd.log")
    up.wait_told("ready", name="etcd", again=True)
    before = counted(port)
    wait_until(lambda: counted(port).waiting > before.waiting, within=30, what="more messages")
    assert up.pid_of("streamer") == streamer

    # Ctrl-C ends all in order; etcd is the last, for the others may still want it.
    assert up.stop(signal.SIGINT) == 0, up.words()
    up.wait_gone(within=15)
    assert [told["name"] for told in up.told("ended")] == ["streamer", "etcd"]
    (summary,) = up.told("summary")
    assert summary["stop_seconds"] < 15

    # The next start finds what the last one left.
    up.start().wait_told("up")
    after = counted(port)
    assert after.waiting >= before.waiting
    assert (after.taken.keys, after.expired) == (0, 0)
    assert up.stop(signal.SIGTERM) == 0


def test_queue_and_settings_may_be_in_an_etcd_that_runs_and_is_left_alone(
    up: UpProcess, tmp_path: Path
) -> None:
    member = EtcdMember(tmp_path / "other").start()
    place = f"etcd://{member.endpoint}"
    try:
        with BlockingClient(member.config()) as client:
            client.put(b"/telemetry/config", b"streamer: {log_level: info}\n")
            up.flags = ("--queue", place, *SMALL, "--config", place)
            up.start().wait_told("up")
            assert [told["name"] for told in up.told("ready")] == ["streamer"]
            wait_until(lambda: counted(member.port).waiting > 0, within=30, what="messages there")

            # What changes there is taken up by the parts.
            client.put(b"/telemetry/config", b"streamer: {log_level: warning}\n")
            log = up.data_dir / "logs" / "streamer.log"
            wait_until(lambda: "a setting changed" in log.read_text(), what="the log level")

        # The doctor asks it too.
        words = [str(NEXUS), "doctor", "--queue", place, "--json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        (found,) = [f for f in json.loads(done.stdout)["findings"] if f["check"] == "etcd"]
        assert (found["level"], member.endpoint in found["found"]) == ("ok", True)

        assert up.stop() == 0, up.words()
        assert member.alive
        assert not (up.data_dir / "etcd").exists()
    finally:
        member.kill()


def test_without_an_etcd_to_start_it_says_what_to_install(up: UpProcess) -> None:
    words = up.command()
    environ = {**os.environ, "ETCD_BIN": "/no/such/etcd"}
    refused = subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=False, env=environ
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "nexus: /no/such/etcd is no program: set ETCD_BIN to etcd's path, or unset it\n"
    )
