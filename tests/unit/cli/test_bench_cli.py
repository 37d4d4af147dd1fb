"""`nexus bench`: how its producers gather is the file's to say, unless a flag does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nexus.bench.clients import BenchFailed, Load
from nexus.cli.entry import run


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Load]:
    """What producers were started with, instead of starting them."""
    kept: list[Load] = []

    @contextmanager
    def no_topic(_bootstrap: str | None, _partitions: int) -> Iterator[tuple[str, str]]:
        yield "h:1", "t"

    def keep(_work: object, inputs: list[Any], **_: object) -> list[Any]:
        kept.extend(one for one in inputs if isinstance(one, Load))
        raise BenchFailed("kept")

    for command in ("produce", "consume", "latency", "e2e"):
        monkeypatch.setattr(f"nexus.cli.bench.{command}.bench_topic", no_topic)
    monkeypatch.setattr("nexus.bench.clients.in_processes", keep)
    monkeypatch.setattr("nexus.bench.latency.in_processes", keep)
    monkeypatch.setattr("nexus.bench.end_to_end.in_processes", keep)
    return kept


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "nexus.yaml"
    path.write_text("performance: {batch_size: 4KB, linger_time: 20ms}\n")
    return str(path)


@pytest.mark.parametrize(
    ("command", "options"),
    [("produce", {}), ("consume", {}), ("latency", {"linger.ms": 0}), ("e2e", {})],
)
def test_without_a_file_the_defaults_stay(
    loads: list[Load], command: str, options: dict[str, int]
) -> None:
    assert run(["bench", command]) == 1
    assert [load.options for load in loads] == [options]


@pytest.mark.parametrize("command", ["produce", "consume", "latency", "e2e"])
def test_the_file_says_how_producers_gather(loads: list[Load], command: str, file: str) -> None:
    assert run(["bench", command, "--config", file]) == 1
    assert [load.options for load in loads] == [{"linger.ms": 20, "batch.size": 4096}]


@pytest.mark.parametrize("linger_ms", [0.0, 2.5])
def test_a_flag_beats_the_file(loads: list[Load], file: str, linger_ms: float) -> None:
    assert run(["bench", "latency", "--config", file, "--linger-ms", str(linger_ms)]) == 1
    assert [load.options for load in loads] == [{"linger.ms": linger_ms, "batch.size": 4096}]


def test_a_wrong_value_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, loads: list[Load]
) -> None:
    path = tmp_path / "nexus.yaml"
    path.write_text("performance: {linger_time: 5}\n")
    assert run(["bench", "produce", "--config", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "performance.linger_time" in error
    assert loads == []
