"""`nexus collector maintain` on a store of its own: what was done, and whose turn it is not."""

import json
from pathlib import Path

import pytest

from nexus.cli.entry import run
from nexus.lake.lock import WriterLock
from nexus.lake.table import LakeTable
from nexus.lake.url import parse_store_url
from nexus.telemetry.tables import TABLES


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"delta://{tmp_path}/tables"
    LakeTable.open(parse_store_url(url), TABLES["readings"])
    return url


def test_it_reports_by_table(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collector", "maintain", "--store", store, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert list(said) == ["readings"]
    assert (said["readings"]["merged"], said["readings"]["problem"]) == (0, "")
    assert run(["collector", "maintain", "--store", store]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "TABLE"
    assert row.split()[0] == "readings"


def test_while_another_writes_it_says_who(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with WriterLock(parse_store_url(store), "c-9") as lock:
        lock.acquire()
        assert run(["collector", "maintain", "--store", store]) == 1
    assert "c-9" in capsys.readouterr().err
    assert run(["collector", "maintain", "--store", store]) == 0


def test_an_archive_that_is_not_there_is_said_before_spark_starts(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--source", f"csv://{tmp_path}/none.csv", "--data-dir", str(tmp_path / "data")]
    assert run(["collector", "backfill", "--store", store, *words]) != 0
    assert "none.csv" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
