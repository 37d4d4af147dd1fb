"""The whole of it, Spark included: readings from a simulated fleet to the gateway, and a clean end.

One start of Spark is dear, so this is one story.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from support.broker import NEXUS
from support.collectors import parent_of
from support.ups import UpProcess
from support.waiting import wait_until


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpProcess]:
    made = UpProcess(tmp_path, ("--source", "sim://?hosts=1&gpus=4&interval=500ms&faults=none"))
    yield made
    made.kill_all()


def get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        document: dict[str, Any] = json.loads(answer.read())
    return document


def rows_of(up: UpProcess, table: str) -> int:
    tables = get(f"{up.dashboard}/api/v1/pipeline")["tables"]
    return sum(each["rows"] for each in tables if each["name"] == table)


def doctor(up: UpProcess) -> dict[str, str]:
    words = [str(NEXUS), "doctor", "--data-dir", str(up.data_dir), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return {f["check"]: f["level"] for f in json.loads(done.stdout)["findings"]}


@pytest.mark.timeout(300)
def test_everything_from_the_start_to_the_end(up: UpProcess) -> None:
    up.start()
    up.wait_told("rows", within=200)
    up.wait_told("up", within=100)
    assert {told["name"] for told in up.told("ready")} == {
        "broker",
        "collector",
        "streamer",
        "gateway",
    }
    found = get(f"{up.dashboard}/api/v1/telemetry/latest?limit=10")
    assert found["count"] == 10
    wait_until(lambda: rows_of(up, "gpus"), within=60, what="the first GPUs in their table")

    # The doctor knows the parts of a running one, wherever they listen.
    levels = doctor(up)
    assert [levels[part] for part in ("broker", "collector", "gateway")] == ["ok"] * 3
    assert not any(check.startswith("port") for check in levels)

    # The gateway dies alone and comes back.
    os.kill(up.pid_of("gateway"), signal.SIGKILL)
    up.wait_told("ready", name="gateway", again=True)
    assert up.told("died")[0]["name"] == "gateway"
    assert len(up.told("died")) == 1

    # No part is reached by the terminal's Ctrl-C: each has a session of its own.
    assert up.process is not None
    parts = [up.pid_of(part) for part in ("broker", "collector", "gateway", "streamer")]
    assert {parent_of(pid) for pid in parts} == {up.process.pid}
    assert len({os.getsid(pid) for pid in [*parts, up.process.pid]}) == 5

    # Ctrl-C: in order, in time, and nobody stays.
    assert up.stop(signal.SIGINT) == 0, up.words()
    up.wait_gone(within=15)
    order = [told["name"] for told in up.told("ended")]
    assert order == ["streamer", "collector", "gateway", "broker"]
    (summary,) = up.told("summary")
    assert summary["stop_seconds"] <= 15, up.words()
    assert (summary["restarts"], summary["gpus"]) == (1, 4)

    # What it says is what the tables hold.
    stored = DeltaTable(str(up.data_dir / "tables" / "readings")).to_pyarrow_table()
    assert summary["readings_stored"] == stored.num_rows > 0
