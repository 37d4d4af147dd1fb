"""`nexus up`: its flags become settings of the parts, and a wrong call is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.cli.entry import run
from nexus.settings.up import UpSettings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[UpSettings, Path | None, bool]]:
    """What it was started with, instead of starting it."""
    calls: list[tuple[UpSettings, Path | None, bool]] = []

    def keep(settings: UpSettings, config: Path | None = None, *, as_json: bool = False) -> int:
        calls.append((settings, config, as_json))
        return 0

    monkeypatch.setattr("nexus.up.main.run", keep)
    return calls


def test_every_flag_is_a_setting_of_its_part(
    started: list[tuple[UpSettings, Path | None, bool]],
) -> None:
    words = (
        "up --data-dir /d --source csv:///a.csv --source nvml:// --loop --port 1 --host 0.0.0.0"
        " --broker-port 2 --broker-http-port 3 --streamer-port 4 --collector-port 5 --memory 512MB"
        " --no-collector --no-gateway --demo-seconds 6 --json"
        " --queue kafka --store etcd --store delta --etcd-port 7 --proxy --proxy-port 8"
    )
    assert run(words.split()) == 0
    ((settings, config, as_json),) = started
    own = settings.up
    assert (own.data_dir, own.sources) == (Path("/d"), ("csv:///a.csv", "nvml://"))
    assert (own.collector, own.gateway, own.demo_seconds) == (False, False, 6)
    assert (own.queue, own.stores, own.etcd_port) == ("kafka", ("etcd", "delta"), 7)
    assert (own.proxy, own.proxy_port) == (True, 8)
    assert (settings.gateway.gateway.port, settings.gateway.gateway.host) == (1, "0.0.0.0")
    assert (settings.broker.broker.port, settings.broker.broker.http_port) == (2, 3)
    assert (settings.streamer.streamer.http_port, settings.streamer.streamer.loop) == (4, True)
    collector = settings.collector.collector
    assert (collector.http_port, collector.memory_bytes) == (5, 512 << 20)
    assert (config, as_json) == (None, True)


def test_without_java_it_says_what_to_install_and_starts_nothing(
    started: list[tuple[UpSettings, Path | None, bool]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run(["up"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("nexus: JAVA_HOME is ")
    assert "install Java 17 or newer" in said
    assert said.count("\n") == 1
    assert started == []
    assert run(["up", "--no-collector"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--broker-port", "70000"], "flag --broker-port: broker.port: found 70000, expected"),
        (["--demo-seconds", "0"], "flag --demo-seconds: up.demo_seconds: found 0, expected"),
        (["--source", " "], "flag --source: up.source: found"),
    ],
)
def test_a_wrong_value_names_its_flag(
    started: list[tuple[UpSettings, Path | None, bool]],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    assert run(["up", *words]) == 2
    assert said in capsys.readouterr().err
    assert started == []
