"""Small files are folded into few, and nobody can tell by the answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.lake.compaction import compact
from nexus.lake.plan import Merge
from nexus.lake.table import LakeTable
from nexus.store.delta import folding, store
from nexus.store.delta.store import DeltaStore
from nexus.store.port import ANY, Page, Selection, Snapshot, Span
from nexus.telemetry.tables import TABLES
from support.derived import HOUR, NOON
from support.lake import FENCE
from support.lakes import Lake, fleet_readings, opened, without

ALL = Page(100_000)
SPAN = Span(NOON - HOUR, NOON + 2 * HOUR)


@pytest.fixture(autouse=True)
def every_look_is_new_and_four_files_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FRESH_S", 0.0)
    monkeypatch.setattr(folding, "FOLDED_AT_ONCE", 4)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path)
    grow(made, 10)
    return made


@pytest.fixture
def asked(lake: Lake) -> Iterator[DeltaStore]:
    with opened(lake) as found:
        assert isinstance(found, DeltaStore)
        yield found


def grow(lake: Lake, commits: int) -> None:
    rng = random.Random(commits)
    for _ in range(commits):
        new = fleet_readings(rng, 12, NOON, NOON + HOUR)
        lake.add(without(new, lake.readings))


def read(view: Snapshot) -> list[list[object]]:
    one = Selection(uuids=("GPU-2",))
    # A mean may differ in its last digit by the order in which its values were added up.
    return [
        view.readings(ANY, SPAN, ALL).to_pylist(),
        view.readings(one, SPAN, Page(7, None, True)).to_pylist(),
        view.rollups(one, SPAN, 60, ALL).drop_columns(["mean"]).to_pylist(),
        view.summary(ANY, SPAN, ("uuid",)).drop_columns(["mean"]).to_pylist(),
    ]


def files_of(asked: DeltaStore) -> int:
    view = asked.snapshot()
    listing = view.pins.tables["readings"]
    return len(view.folds.instead(listing, list(listing.files())))


def test_answers_are_the_same_from_fewer_files(lake: Lake, asked: DeltaStore) -> None:
    before = read(asked.snapshot())
    assert asked.folded(10.0)
    assert files_of(asked) == 10 - 2 * 3
    assert read(asked.snapshot()) == before


def test_folds_grow_with_the_table_and_are_folded_again(lake: Lake, asked: DeltaStore) -> None:
    grow(lake, 4 * 4 - 10 + 3)
    asked.snapshot()
    assert asked.folded(30.0)
    assert files_of(asked) == 1 + 3
    assert asked.snapshot().readings(ANY, SPAN, ALL).num_rows == lake.readings.num_rows


def test_a_fold_is_no_more_used_when_its_files_are_merged(lake: Lake, asked: DeltaStore) -> None:
    pinned = asked.snapshot()
    before = read(pinned)
    assert asked.folded(10.0)
    folded = asked.snapshot()
    table = LakeTable.open(lake.store, TABLES["readings"])
    assert compact(table, Merge(tuple(table.files()[:5])), FENCE) is not None
    assert read(asked.snapshot()) == before
    assert asked.folded(10.0)
    assert read(asked.snapshot()) == before
    assert read(folded) == before
    assert read(pinned) == before
    folds = asked.snapshot().folds.found
    assert all(fold.paths <= {file.path for file in table.files()} for fold in folds)


def test_nothing_is_left_of_folds_when_the_store_is_closed(lake: Lake) -> None:
    with opened(lake) as asked:
        assert isinstance(asked, DeltaStore)
        asked.snapshot()
        assert asked.folded(10.0)
        (fold, *_) = asked.snapshot().folds.found
        assert Path(fold.file.path).exists()
    assert not Path(fold.file.path).exists()
