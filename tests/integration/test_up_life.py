"""A real `nexus up` without Spark: what it refuses, what it survives, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from nexus.streamer.sources.recording import recording_path
from nexus.up.ports import is_free
from support.streamers import readings_in
from support.ups import UpProcess
from support.waiting import wait_until

SMALL = ("--no-collector", "--no-gateway", "--source", "sim://?hosts=1&gpus=2&interval=200ms")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpProcess]:
    made = UpProcess(tmp_path, SMALL)
    yield made
    made.kill_all()


def again(up: UpProcess, *more: str) -> subprocess.CompletedProcess[str]:
    """The same command once more, which is to fail at once."""
    return subprocess.run(
        up.command(*more), capture_output=True, text=True, timeout=30, check=False
    )


def ticks_in(up: UpProcess) -> list[int]:
    """The moments of the simulated fleet that have come, in tenths of a second."""
    table = readings_in(up.bootstrap, "gpu-telemetry")
    times = table.column("timestamp").cast("int64").to_pylist()
    return sorted({time_us // 100_000 for time_us in times})


def test_a_part_that_is_killed_comes_back_and_the_next_start_goes_on(up: UpProcess) -> None:
    up.start().wait_told("up")

    # Another one on the same directory is refused, and disturbs nobody.
    second = again(up)
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.startswith(f"nexus: {up.data_dir} belongs to another `nexus up` (process")

    # A part that dies is started again; the others do not notice.
    streamer = up.pid_of("streamer")
    os.kill(up.pid_of("broker"), signal.SIGKILL)
    died = up.wait_told("died", name="broker")
    assert (died["status"], died["log"]) == (-9, str(up.data_dir / "logs" / "broker.log"))
    up.wait_told("ready", name="broker", again=True)
    assert up.pid_of("streamer") == streamer

    # Ctrl-C ends all of it in order, and says how it went.
    assert up.stop(signal.SIGINT) == 0, up.words()
    up.wait_gone(within=15)
    order = [told["name"] for told in up.told("ended")]
    assert order == ["streamer", "broker"]
    (summary,) = up.told("summary")
    assert summary["stop_seconds"] < 15
    assert summary["parts"]["broker"]["restarts"] == summary["restarts"] == 1
    assert summary["peak_memory_pss_bytes"] > 1 << 20
    assert (up.data_dir / "broker" / "clean-stop").exists()

    # The next start has what the last one left and goes on behind it: no moment is missing.
    told = up.start("--proxy", "--proxy-port", "0").wait_told("up")
    assert "going on where it stopped" in (up.data_dir / "logs" / "streamer.log").read_text()
    ticks = ticks_in(up)
    assert ticks == list(range(ticks[0], ticks[-1] + 1, 2))
    # This one lets any HTTP client use the queue.
    answer = httpx.post(f"{told['proxy']}/produce?topic=by-http", json={"payload": 1})
    assert answer.status_code == 200, answer.text
    assert up.stop(signal.SIGTERM) == 0


def test_a_taken_port_is_one_error_before_anything_is_started(up: UpProcess) -> None:
    with socket.create_server(("127.0.0.1", up.ports["streamer"])):
        refused = again(up)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"nexus: port {up.ports['streamer']}, for streamer, is taken by process {os.getpid()}"
        f" ({Path('/proc/self/comm').read_text().strip()}); free it, or choose another with"
        " --streamer-port\n"
    )
    assert not (up.data_dir / "broker").exists()


def test_a_parent_that_is_killed_leaves_no_orphans_on_its_ports(up: UpProcess) -> None:
    up.start().wait_told("up")
    up.send(signal.SIGKILL)
    up.wait()
    up.wait_gone(within=15)
    for port in up.ports.values():  # the kernel closes them a moment after the process is gone
        wait_until(lambda port=port: is_free("127.0.0.1", port), within=15)  # type: ignore[misc]
    up.start().wait_told("up")
    assert up.stop(signal.SIGTERM) == 0


def test_a_source_that_fails_and_one_that_ends_stop_nobody(up: UpProcess) -> None:
    sources = ("--source", "csv:///no/such/file.csv", "--source", str(recording_path()))
    up.flags = ("--no-collector", "--no-gateway", *sources)
    up.start()
    up.wait_told("ended", name="streamer-2", asked=False)
    died = up.wait_told("died", name="streamer-1", deaths=2)
    assert "/no/such/file.csv" in died["why"]
    assert {told["name"] for told in up.told("died")} == {"streamer-1"}
    assert up.stop() == 0


def test_a_demo_ends_by_itself_and_sums_up(up: UpProcess) -> None:
    assert up.start("--demo-seconds", "2").wait() == 0, up.words()
    up.wait_gone(within=15)
    summary = up.told()[-1]
    assert summary["event"] == "summary"
    assert summary["parts"].keys() == {"broker", "streamer"}
