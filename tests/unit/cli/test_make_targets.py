"""What people type with `make`: every target that a page names is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"`make ([a-z-]+)[ `]|^make ([a-z-]+)", re.MULTILINE)
ETCD = [
    "setup-etcd",
    "build-nexus",
    "run-nexus-pipeline",
    "run-nexus-streamer",
    "run-nexus-collector",
    "run-nexus-api",
    "bench-etcd",
]


def planned(*words: str) -> str:
    """What make would do."""
    done = subprocess.run(
        ["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", ETCD)
def test_targets_of_pipelines_in_etcd_are_there(target: str) -> None:
    assert planned(target)


def test_the_whole_pipeline_runs_on_an_etcd_of_its_own_with_more_flags() -> None:
    said = planned("run-nexus-pipeline", "ARGS=--port 8081")
    assert "nexus up --queue etcd --store etcd --port 8081" in said


def test_every_target_that_a_page_names_is_there() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    named = {a or b for page in pages for a, b in NAMED.findall(page.read_text())}
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"test", "setup-etcd"} <= named
    assert named - made == set()
