"""`nexus broker` is read in two ways: both must understand it alike."""

from pathlib import Path
from typing import Any

import pytest

from nexus.cli.app import run_command
from nexus.cli.entry import run
from nexus.cli.plain import BrokerCall, plain_broker_call

CALLS = [
    [],
    ["--listen", "0.0.0.0:9093"],
    ["--listen=0.0.0.0:9093", "--http", "127.0.0.1:0"],
    ["--config", "a.yaml", "--data-dir", "/d", "--fsync", "never"],
    ["--set", "broker.id=2", "--set=storage.segment_time=1h"],
    ["--fsync", "never", "--fsync", "commit"],
]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[BrokerCall]:
    """The calls that would have started a broker."""
    calls: list[BrokerCall] = []

    def start(self: BrokerCall) -> int:
        calls.append(self)
        return 7

    monkeypatch.setattr(BrokerCall, "start", start)
    return calls


@pytest.mark.parametrize("words", CALLS)
def test_both_ways_understand_a_call_alike(started: list[BrokerCall], words: list[str]) -> None:
    plain = plain_broker_call(["broker", *words])
    assert run_command(["broker", *words]) == 7
    assert started == [plain]


def test_a_plain_call_is_started_and_its_code_returned(started: list[BrokerCall]) -> None:
    assert run(["broker", "--data-dir", "/d"]) == 7
    assert started == [BrokerCall(data_dir=Path("/d"))]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["topics", "list"],
        ["--version"],
        ["broker", "--help"],
        ["broker", "--lisen", "a:1"],
        ["broker", "--listen"],
        ["broker", "extra"],
        ["broker", "--"],
    ],
)
def test_everything_else_is_left_to_the_library(words: list[str]) -> None:
    assert plain_broker_call(words) is None


def test_settings_reach_the_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[Any] = []

    def serve(settings: Any, *, follow: object, reload: object) -> int:
        given.append(settings)
        return 0

    monkeypatch.setattr("nexus.broker.main.run", serve)
    file = tmp_path / "n.yaml"
    file.write_text("broker: {id: 3}")
    words = ["--config", str(file), "--listen", "127.0.0.1:0", "--set", "storage.fsync=never"]
    assert run(["broker", *words]) == 0
    (settings,) = given
    assert (settings.broker.id, settings.broker.port, settings.storage.fsync) == (3, 0, "never")
