"""Health facts are real numbers where the system tells them, and absent or named where not."""

from __future__ import annotations

from pathlib import Path

from nexus.observe import health


def test_the_disk_of_a_directory_is_measured(tmp_path: Path) -> None:
    found = health.disk(tmp_path)
    assert 0 < int(found["free_bytes"]) <= int(found["total_bytes"])
    assert 0 < float(found["percent_free"]) <= 100


def test_a_directory_that_is_gone_is_reported_and_not_raised(tmp_path: Path) -> None:
    found = health.disk(tmp_path / "gone")
    assert found == {"path": str(tmp_path / "gone"), "error": "No such file or directory"}


def test_memory_is_read_from_the_process_status(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tnexus\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\nThreads:\t3\n")
    assert health.memory(status) == {"resident_bytes": 1 << 20, "peak_resident_bytes": 2 << 20}


def test_a_system_without_process_status_has_no_memory_facts(tmp_path: Path) -> None:
    assert health.memory(tmp_path / "none") == {}


def test_the_facts_are_of_this_disk_and_this_process(tmp_path: Path) -> None:
    found = health.facts(tmp_path)
    assert found["disk"]["path"] == str(tmp_path)
    assert int(found["memory"]["resident_bytes"]) > 1 << 20
