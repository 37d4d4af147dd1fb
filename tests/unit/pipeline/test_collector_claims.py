"""Which partitions are whose: disjoint collectors work side by side, others are refused."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.pipeline.collector.claims import Claim, Claims, Overlap, overlap, spans_of

QUEUE = "kafka://h:9092/t"


def claim(partitions: str, process: int, collector: str = "c") -> Claim:
    return Claim(collector, process, QUEUE, "g", partitions, ("delta:///x",))


Make = Callable[..., Claims]


@pytest.fixture
def claims(tmp_path: Path) -> Iterator[Make]:
    """Claims on one data directory, of as many collectors as are made."""
    made: list[Claims] = []

    def make(group: str = "g") -> Claims:
        made.append(Claims(tmp_path, QUEUE, group))
        return made[-1]

    yield make
    for each in made:
        each.release()


def test_disjoint_partitions_are_both_claimed(claims: Make) -> None:
    claims().take(claim("0-3", 1))
    claims().take(claim("4-7", 2))


@pytest.mark.parametrize("partitions", ["3-5", "", "0", "2,9"])
def test_an_overlap_is_refused_and_names_the_other(claims: Make, partitions: str) -> None:
    first = claims()
    first.take(claim("0-3", 1, "first"))
    with pytest.raises(Overlap) as refused:
        claims().take(claim(partitions, 2))
    said = str(refused.value)
    assert "collector first (process 1)" in said
    assert "partitions 0-3" in said
    assert "delta:///x" in said
    assert refused.value.exit_code == 2
    first.release()
    claims().take(claim(partitions, 2))


def test_another_group_has_claims_of_its_own(claims: Make) -> None:
    claims().take(claim("", 1))
    claims("other").take(claim("", 2))


def test_a_dead_collector_claims_nothing(claims: Make, tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib;"
        "from nexus.pipeline.collector.claims import Claim, Claims;"
        f"c = Claims(pathlib.Path(sys.argv[1]), {QUEUE!r}, 'g');"
        f"c.take(Claim('c', os.getpid(), {QUEUE!r}, 'g', '', ()));"
        "os._exit(9)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert ended.returncode == 9
    assert list(tmp_path.rglob("*.claim"))
    claims().take(claim("", os.getpid()))
    assert len(list(tmp_path.rglob("*.claim"))) == 1


def test_a_release_may_come_twice(claims: Make, tmp_path: Path) -> None:
    held = claims()
    held.release()
    held.take(claim("", 1))
    held.release()
    held.release()
    assert not list(tmp_path.rglob("*.claim"))


numbers = st.sets(st.integers(0, 30), min_size=1)


@given(numbers, numbers)
def test_overlap_is_what_sets_of_numbers_have_in_common(one: set[int], other: set[int]) -> None:
    def text(chosen: set[int]) -> str:
        return ",".join(str(n) for n in sorted(chosen))

    assert overlap(spans_of(text(one)), spans_of(text(other))) == bool(one & other)
    assert overlap(spans_of(text(one)), spans_of(""))
