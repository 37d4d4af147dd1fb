"""`nexus collector` and its commands: flags become settings, and a wrong call is one line."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nexus.cli.entry import run
from nexus.settings.collector import CollectorSettings

Calls = list[tuple[CollectorSettings, bool]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What the collector was started with, instead of starting it."""
    calls: Calls = []

    def keep(settings: CollectorSettings, *, as_json: bool = False, follow: object = None) -> int:
        calls.append((settings, as_json))
        return 0

    monkeypatch.setattr("nexus.pipeline.collector.main.run", keep)
    return calls


def test_every_flag_is_a_setting(started: Calls) -> None:
    words = (
        "collector --queue kafka://h:1/t --store delta:///a --store s3://b/c --from 2h"
        " --partitions 0-5 --trigger 500ms --available-now --batch-size 7 --poll-timeout 3s"
        " --on-gone skip --group g --collector-id c --master spark://m:7077 --workers 4"
        " --memory 2GB --conf spark.x=1 --conf spark.y=2 --no-derive --data-dir /d"
        " --http 0.0.0.0:1 --json"
    )
    assert run(words.split()) == 0
    ((settings, as_json),) = started
    own = settings.collector
    expected: dict[str, Any] = {
        "queue": "kafka://h:1/t",
        "stores": ("delta:///a", "s3://b/c"),
        "start": "2h",
        "partitions": "0-5",
        "trigger_ms": 500,
        "available_now": True,
        "batch_size": 7,
        "poll_timeout_ms": 3000,
        "on_gone": "skip",
        "group": "g",
        "collector_id": "c",
        "master": "spark://m:7077",
        "workers": 4,
        "memory_bytes": 2 << 30,
        "conf": (("spark.x", "1"), ("spark.y", "2")),
        "derive": False,
        "data_dir": Path("/d"),
        "http_host": "0.0.0.0",
        "http_port": 1,
    }
    assert {name: getattr(own, name) for name in expected} == expected
    assert as_json


def test_without_a_flag_everything_is_as_the_settings_say(started: Calls) -> None:
    assert run(["collector"]) == 0
    assert started[0][1] is False


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--partitions", "5-1"], "flag --partitions"),
        (["--http", "x"], "flag --http"),
        (["--store", "x"], "flag --store"),
        (["--trigger", "2"], "flag --trigger"),
        (["--no-such"], "--no-such"),
        (["nonsense"], "nonsense"),
        (["--queue", "kafka://h:1/t", "maintain"], "belongs behind the command"),
        (["rebuild", "--table", "readings"], "expected one of rollup_1m"),
        (["rebuild", "--table", "rollup_1m", "--from", "2h", "--to", "3h"], "not after --from"),
        (["rebuild"], "--table"),
        (["backfill"], "--source"),
    ],
)
def test_a_wrong_call_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert run(["collector", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--queue", "redis://h:1/x"], "unknown kind redis"),
        (["--store", "influxdb://me:pw@h/db"], "INFLUX_PASSWORD"),
        (["--store", "ftp://x"], "unknown kind ftp"),
    ],
)
def test_what_cannot_be_started_says_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], says: str
) -> None:
    assert run(["collector", "--data-dir", str(tmp_path), *words]) != 0
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


@pytest.mark.parametrize("command", ["maintain", "backfill", "rebuild"])
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run(["collector", command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Examples" in text
    assert "--store" in text


def test_help_shows_every_flag_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collector", "--help"]) == 0
    text = capsys.readouterr().out
    for flag in ("--queue", "--store", "--master", "--trigger", "--available-now", "--from"):
        assert flag in text
    for flag in ("--partitions", "--conf", "--json"):
        assert flag in text
    for command in ("maintain", "backfill", "rebuild"):
        assert command in text


def test_asking_for_help_does_not_load_spark() -> None:
    code = (
        "import sys; from nexus.cli.entry import run;"
        "run(['collector', '--help']); run(['--help']);"
        "sys.exit(sum(name in sys.modules for name in ('pyspark', 'deltalake', 'pyarrow')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0
