"""`nexus config show`: the value and the source of every setting."""

import json
from pathlib import Path

import pytest

from nexus.cli.entry import run


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    familiar = ("CLUSTER_ID", "WORKERS", "BATCH_SIZE", "POLL_TIMEOUT", "PROCESSING_INTERVAL")
    for variable in ("NEXUS_CONFIG", "NEXUS_BROKER_ID", "COLLECTOR_ID", *familiar):
        monkeypatch.delenv(variable, raising=False)


def test_each_value_says_where_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "n.yaml"
    file.write_text("storage:\n  retention_time: 7d\ntopics: {a: {partitions: 3}}\n")
    monkeypatch.setenv("NEXUS_BROKER_ID", "4")
    words = ["config", "show", "--config", str(file), "--listen", "0.0.0.0:9093", "--json"]
    assert run([*words, "--set", "storage.segment_time=1h"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["storage.retention_time"] == {"value": "7d", "source": f"{file}:2"}
    assert shown["broker.id"] == {"value": "4", "source": "environment NEXUS_BROKER_ID"}
    assert shown["broker.port"] == {"value": "9093", "source": "flag --listen"}
    assert shown["storage.segment_time"] == {"value": "1h", "source": "flag --set"}
    assert shown["storage.fsync"] == {"value": "commit", "source": "default"}
    assert shown["topics.a.partitions"] == {"value": "3", "source": f"{file}:3"}


def test_a_pipe_gets_aligned_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["SETTING", "VALUE", "SOURCE"]
    column = lines[0].index("SOURCE")
    assert all(line[column:] == "default" for line in lines[1:])


def test_every_part_has_its_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["broker.port"]["value"] == "9092"
    assert shown["streamer.encoding"]["value"] == "arrow"
    assert shown["collector.trigger"]["value"] == "2s"
    assert shown["gateway.port"]["value"] == "8080"
