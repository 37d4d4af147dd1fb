"""The query port over object storage gives the same answers as over a folder."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.cli.entry import run
from nexus.store.delta import folding, store
from nexus.store.delta.store import DeltaStore
from nexus.store.errors import StoreAway
from nexus.store.opening import open_store
from nexus.store.port import ANY, Page, Selection, Snapshot, Span
from support.derived import HOUR, NOON
from support.lakes import Lake, fleet_readings, opened, without
from support.object_store import object_store, store_at

ALL = Page(10_000)
SPAN = Span(NOON, NOON + 3 * HOUR)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with object_store() as found:
        yield found


def filled(lake: Lake) -> Lake:
    rng = random.Random(3)
    first = lake.add(fleet_readings(rng, 120, NOON, NOON + 2 * HOUR))
    lake.derive("rollup_1m", first, NOON + HOUR)
    lake.derive("latest", first)
    lake.derive("gpus", first)
    lake.add(without(fleet_readings(rng, 60, NOON, NOON + 3 * HOUR), lake.readings))
    return lake


def answers(view: Snapshot) -> list[object]:
    one = Selection(uuids=("GPU-1",))
    return [
        view.readings(one, SPAN, Page(20)).to_pylist(),
        view.rollups(ANY, SPAN, 300, ALL).to_pylist(),
        view.latest(ANY, ALL).to_pylist(),
        view.gpus(ANY, (), ALL).to_pylist(),
        view.summary(ANY, SPAN, ("hostname",)).to_pylist(),
        view.tables().select(["name", "rows", "files"]).to_pylist(),
    ]


def test_a_bucket_answers_as_a_folder_does(address: str, tmp_path: Path) -> None:
    here, there = filled(Lake(tmp_path)), filled(Lake(store_at(address, "asked")))
    with opened(here) as local, opened(there) as remote:
        assert answers(remote.snapshot()) == answers(local.snapshot())


def test_small_files_of_a_bucket_are_folded_into_local_ones(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "FOLDED_AT_ONCE", 4)
    lake = Lake(store_at(address, "folded"))
    rng = random.Random(4)
    for _ in range(5):
        lake.add(without(fleet_readings(rng, 5, NOON, NOON + HOUR), lake.readings))
    with opened(lake) as asked:
        assert isinstance(asked, DeltaStore)
        before = asked.snapshot().readings(ANY, SPAN, ALL)
        assert asked.folded(30.0)
        view = asked.snapshot()
        assert len(view.folds.found) == 1
        assert view.readings(ANY, SPAN, ALL).equals(before)
        assert before.num_rows == lake.readings.num_rows


def test_a_bucket_that_does_not_answer_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FRESH_S", 60.0)
    with object_store() as address:
        lake = filled(Lake(store_at(address, "away")))
        asked = open_store(lake.url)
        view = asked.snapshot()
    try:
        with pytest.raises(StoreAway) as away:
            view.readings(ANY, SPAN, ALL)
        assert away.value.retriable
        assert "\n" not in str(away.value)
    finally:
        asked.close()


def test_a_store_is_copied_into_a_bucket_and_back(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = filled(Lake(tmp_path / "here"))
    there, back = str(store_at(address, "copied")), f"delta://{tmp_path / 'back'}"
    for source, target in ((here.url, there), (there, back), (here.url, there)):
        assert run(["store", "copy", source, target]) == 0, capsys.readouterr().err
    assert "0 rows added" in capsys.readouterr().out
    for words in (["verify", there], ["verify", back, "--against", here.url], ["vacuum", there]):
        assert run(["store", *words]) == 0, capsys.readouterr()
