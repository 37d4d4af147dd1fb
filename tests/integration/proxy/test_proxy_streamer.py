"""A streamer that speaks only HTTP publishes through a proxy, and survives its absence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.broker import NEXUS, BrokerProcess
from support.confluent import values_in
from support.proxies import ProxyProcess

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("encoding", ["arrow", "json"])
def test_a_streamer_publishes_through_a_proxy(
    broker: BrokerProcess, proxy: ProxyProcess, tmp_path: Path, encoding: str
) -> None:
    topic = f"readings-{encoding}"
    words = [str(NEXUS), "streamer", "--source", "sim://?hosts=1&gpus=2&seed=1&duration=3s"]
    words += ["--queue", f"{proxy.url}/{topic}", "--state-dir", str(tmp_path / "state")]
    words += ["--http", "127.0.0.1:0", "--encoding", encoding]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "acknowledged" in done.stdout
    values = [v for n in range(12) for v in values_in(broker.bootstrap, topic, n)]
    assert values
    assert all((value or b"")[:1] == b"{" for value in values) == (encoding == "json")
