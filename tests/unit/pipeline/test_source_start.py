"""Where a query starts, found once and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.pipeline.source.options import At
from nexus.pipeline.source.start import BadStart, keep, kept, resolve
from nexus.queue.port import Bounds

BOUNDS = {0: Bounds(10, 50), 1: Bounds(0, 0), 2: Bounds(7, 9)}


def nobody_asks(moment_ms: int) -> dict[int, int]:
    raise AssertionError(f"asked for {moment_ms}")


def test_the_edges_are_those_of_what_there_is() -> None:
    assert resolve(At(edge="earliest"), BOUNDS, nobody_asks, name="start") == {0: 10, 1: 0, 2: 7}
    assert resolve(At(edge="latest"), BOUNDS, nobody_asks, name="start") == {0: 50, 1: 0, 2: 9}


def test_a_moment_is_looked_up_and_never_past_the_end() -> None:
    found = resolve(At(moment_ms=5), BOUNDS, lambda ms: {0: 20 + ms, 2: 99}, name="start")
    assert found == {0: 25, 1: 0, 2: 9}


def test_partitions_that_offsets_leave_out_are_read_whole() -> None:
    at = At(offsets=((0, 12),))
    assert resolve(at, BOUNDS, nobody_asks, name="start") == {0: 12, 1: 0, 2: 7}
    assert resolve(at, BOUNDS, nobody_asks, name="end") == {0: 12, 1: 0, 2: 9}


def test_offsets_that_were_removed_are_kept_for_whoever_reads_to_say() -> None:
    assert resolve(At(offsets=((0, 3),)), BOUNDS, nobody_asks, name="start")[0] == 3


def test_offsets_past_the_end_are_refused() -> None:
    with pytest.raises(BadStart, match="partition 0 ends at 50, before the offset 51"):
        resolve(At(offsets=((0, 51),)), BOUNDS, nobody_asks, name="start")


def test_a_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadStart, match="option end: there is no partition 3"):
        resolve(At(offsets=((3, 1),)), BOUNDS, nobody_asks, name="end")


def test_a_start_is_kept_and_the_first_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "new" / "start.json"
    assert kept(path) is None
    assert kept(None) is None
    assert keep(path, {1: 7, 0: 50}) == {0: 50, 1: 7}
    assert keep(path, {0: 60}) == {0: 50, 1: 7}
    assert kept(path) == {0: 50, 1: 7}
    assert [child.name for child in path.parent.iterdir()] == ["start.json"]


def test_a_start_of_no_partitions_is_a_start(tmp_path: Path) -> None:
    assert keep(tmp_path / "start", {}) == {}
    assert kept(tmp_path / "start") == {}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"offsets": {"a": 1}}', '{"offsets": 3}'])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "start.json"
    path.write_text(text)
    with pytest.raises(BadStart, match=r"start\.json: does not say where to start"):
        kept(path)
