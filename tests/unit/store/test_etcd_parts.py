"""Decisions of the etcd store that need no etcd: which keys can hold what is asked for."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.etcd.results import KeyValue
from nexus.store.etcd.documents import GPU_SCHEMA, Known
from nexus.store.etcd.index import Index
from nexus.store.etcd.layout import StoreLayout, data_keys
from nexus.store.etcd.parts import Surveyed, told_first
from nexus.store.port import ANY, Selection
from nexus.store.questions.spans import Stretch

LAYOUT = StoreLayout("/telemetry/a/b")
moments = st.integers(0, 1000)


def index(*places: tuple[str, str, str]) -> Index:
    paths: dict[str, tuple[str, ...]] = {}
    for cluster, host, uuid in places:
        paths[uuid] = (*paths.get(uuid, ()), LAYOUT.path(cluster, host, uuid))
    rows = [
        {f.name: uuid if f.name == "uuid" else "" for f in GPU_SCHEMA if f.type == pa.string()}
        | {"first_seen": 0, "last_seen": number}
        for number, uuid in enumerate(paths)
        if not uuid.endswith("/")
    ]
    return Index(known=Known(pa.Table.from_pylist(rows, GPU_SCHEMA), paths))


@pytest.mark.parametrize(
    ("which", "found"),
    [
        (ANY, {"G1", "G2", "G3", "h1/"}),
        (Selection(uuids=("G1", "nobody", "G1")), {"G1"}),
        (Selection(hostnames=("h1",)), {"G1", "h1/"}),
        (Selection(hostnames=("a/b",), clusters=("c%", "c2")), {"G2"}),
        (Selection(clusters=("",)), {"G3", "h1/"}),
        (Selection(clusters=("%",)), set()),
        (Selection(uuids=("G2",), hostnames=("h1",)), set()),
    ],
)
def test_a_selection_names_the_paths_that_can_hold_it(which: Selection, found: set[str]) -> None:
    known = index(("c1", "h1", "G1"), ("c%", "a/b", "G2"), ("", "", "G3"), ("", "h1", "h1/"))
    assert known.paths(which).keys() == found


def test_of_a_gpu_that_moved_only_the_paths_of_the_host_are_read() -> None:
    known = index(("c", "h1", "G"), ("c", "h2", "G"))
    assert known.paths(Selection(hostnames=("h2",))) == {"G": (LAYOUT.path("c", "h2", "G"),)}
    assert known.moved("G")
    assert not known.moved("nobody")


def test_two_gpus_are_enough_to_tell_that_a_prefix_is_not_unique() -> None:
    known = index(*(("c", "h", f"GPU-{letter}") for letter in "cab"), ("c", "h", "h/"))
    assert known.named("GPU-") == ["GPU-a", "GPU-b"]
    assert known.named("GPU-c") == ["GPU-c"]
    assert known.named("") == ["GPU-a", "GPU-b"]
    assert known.named("h") == []
    assert known.named("GPU-d") == []


@given(moments, moments, moments, moments, st.integers(1, 1000))
def test_a_part_covers_what_is_asked_and_weighs_no_more_than_there_is(
    low: int, length: int, start: int, width: int, keys: int
) -> None:
    whole = Stretch(0, 2001)
    surveyed = Surveyed("/p", whole, keys, low, low + length, None, moved=False)
    asked = Stretch(start, start + width + 1)
    part = surveyed.part(asked)
    if part is None:
        assert asked.high <= low
        return
    assert part.asked.keys == data_keys("/p", asked.low, asked.high)
    assert 1 <= part.rows <= max(1, keys)
    assert max(asked.low, low) == part.low <= part.high
    if asked.low <= low and low + length < asked.high:
        assert part.rows == keys


def test_a_reading_that_is_told_twice_is_taken_from_where_it_was_stored_first() -> None:
    def item(path: str, name: str, created: int) -> KeyValue:
        return KeyValue(f"{path}/data/{name}".encode(), path.encode(), created, 9, 1, 0)

    here, there = LAYOUT.path("c", "new", "G"), LAYOUT.path("c", "old", "G")
    other = LAYOUT.path("c", "old", "G2")
    told = [
        item(here, "1_m_x", 7),
        item(there, "1_m_x", 5),
        item(there, "2_m_x", 5),
        item(other, "1_m_x", 1),
    ]
    assert told_first(told) == [told[1], told[2], told[3]]
