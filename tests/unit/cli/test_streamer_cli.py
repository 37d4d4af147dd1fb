"""`nexus streamer`: its flags become settings, and a wrong call is one line."""

from pathlib import Path
from typing import Any

import pytest

from nexus.cli.entry import run
from nexus.settings.streamer import StreamerSettings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[StreamerSettings, bool]]:
    """What the streamer was started with, instead of starting it."""
    calls: list[tuple[StreamerSettings, bool]] = []

    def keep(settings: StreamerSettings, *, from_start: bool = False, follow: object = None) -> int:
        calls.append((settings, from_start))
        return 0

    monkeypatch.setattr("nexus.streamer.main.run", keep)
    return calls


def test_every_flag_is_a_setting(started: list[tuple[StreamerSettings, bool]]) -> None:
    words = (
        "streamer --source csv:///a.csv --queue kafka://h:1/t --rate 5 --loop --keep-timestamps"
        " --encoding json --partitioner round-robin --batch-size 7 --interval 3s --shard 1/3"
        " --cluster c --state-dir /s --spool-size 2MB --partitions 4 --http 0.0.0.0:1 --from-start"
    )
    assert run(words.split()) == 0
    ((settings, from_start),) = started
    own = settings.streamer
    expected: dict[str, Any] = {
        "source": "csv:///a.csv",
        "queue": "kafka://h:1/t",
        "rate": 5,
        "loop": True,
        "restamp": False,
        "encoding": "json",
        "partitioner": "round-robin",
        "batch_size": 7,
        "interval_ms": 3000,
        "shard": (1, 3),
        "state_dir": Path("/s"),
        "spool_bytes": 2 << 20,
        "partitions": 4,
        "http_host": "0.0.0.0",
        "http_port": 1,
    }
    assert {name: getattr(own, name) for name in expected} == expected
    assert settings.cluster.cluster_id == "c"
    assert from_start


def test_speed_and_follow_are_flags_too(started: list[tuple[StreamerSettings, bool]]) -> None:
    assert run(["streamer", "--source", "a.csv", "--speed", "2x", "--follow", "--restamp"]) == 0
    own = started[0][0].streamer
    assert (own.speed, own.follow, own.restamp, own.loop) == (2.0, True, True, False)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--shard", "3/3"], "flag --shard"),
        (["--http", "x"], "flag --http"),
        (["--encoding", "xml"], "flag --encoding"),
        (["--loop", "--follow"], "contradicts"),
        (["--no-such"], "--no-such"),
    ],
)
def test_a_wrong_call_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert run(["streamer", "--source", "a.csv", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "there is no source"),
        (["--source", "ftp://x"], "unknown kind"),
        (["--source", "recording://", "--queue", "redis://h:1/x"], "unknown kind redis"),
        (["--source", "recording://", "--partitioner", "best"], "expected murmur2"),
    ],
)
def test_what_cannot_be_started_says_why(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    says: str,
) -> None:
    monkeypatch.delenv("CSV_FILE", raising=False)
    assert run(["streamer", "--state-dir", str(tmp_path), *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_help_shows_every_flag_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["streamer", "--help"]) == 0
    text = capsys.readouterr().out
    for flag in ("--source", "--queue", "--rate", "--speed", "--loop", "--restamp", "--encoding"):
        assert flag in text
    for flag in ("--partitioner", "--batch-size", "--interval", "--follow", "--shard"):
        assert flag in text
