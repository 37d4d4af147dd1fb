"""A stream's batch is stored only once its plan is safe."""

import os
from pathlib import Path

import pytest

from nexus.pipeline.collector.stream import keep_plan


def test_the_plan_of_a_batch_is_on_the_disk_before_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "checkpoint"
    files = [checkpoint / "metadata", checkpoint / "offsets" / "7", checkpoint / "offsets/.7.crc"]
    files[1].parent.mkdir(parents=True)
    for file in files:
        file.write_text("{}")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    keep_plan(checkpoint, 7)
    wanted = [*files, checkpoint / "offsets", checkpoint]
    assert {path.stat().st_ino for path in wanted} <= set(synced)
    of_files, of_folder = synced.index(files[1].stat().st_ino), files[1].parent.stat().st_ino
    assert of_files < synced.index(of_folder), "a name is worth nothing before its content"


def test_without_a_plan_nothing_is_stored(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        keep_plan(tmp_path, 0)
