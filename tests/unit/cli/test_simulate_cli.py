"""`nexus simulate` writes a fleet and says what it wrote."""

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nexus.cli.simulate import app
from nexus.settings.errors import SettingsError
from nexus.streamer.simulator import SimulatorError

SMALL = ["--hosts", "2", "--gpus", "2", "--seed", "1"]


def simulate(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*SMALL, *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


def test_it_writes_the_file_and_a_summary(tmp_path: Path) -> None:
    out = tmp_path / "fleet.csv"
    said = json.loads(simulate("--seconds", "30", "--out", str(out), "--json"))
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert said["rows"] == len(rows) == 30 * 4 * 20
    assert said["bytes"] == out.stat().st_size
    assert rows[0]["timestamp"] == "2025-01-01T00:00:00Z"


def test_the_truth_is_written_beside_it(tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    simulate(
        *("--duration", "2m", "--interval", "2s", "--fault-period", "1m"),
        *("--faults", "xid,silent", "--start", "2026-02-03T04:05:06Z"),
        *("--out", str(tmp_path / "fleet.csv.gz"), "--truth", str(truth)),
    )
    document = json.loads(truth.read_text())
    assert (document["ticks"], document["start"]) == (60, "2026-02-03T04:05:06Z")
    assert {fault["kind"] for fault in document["faults"]} == {"xid", "silent"}
    assert len(document["gpus"]) == 4


def test_the_summary_is_a_table_for_people(tmp_path: Path) -> None:
    said = simulate("--seconds", "2", "--out", str(tmp_path / "fleet.csv"))
    assert "rows per second" in said


@pytest.mark.parametrize("wrong", [("--interval", "soon"), ("--duration", "0")])
def test_a_wrong_time_names_its_flag(tmp_path: Path, wrong: tuple[str, str]) -> None:
    with pytest.raises(SettingsError, match=wrong[0]):
        simulate(*wrong, "--out", str(tmp_path / "fleet.csv"))


def test_an_unknown_fault_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, match="fire"):
        simulate("--faults", "fire", "--out", str(tmp_path / "fleet.csv"))
    assert list(tmp_path.iterdir()) == []
