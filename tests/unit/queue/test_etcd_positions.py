"""Positions in a queue in etcd, and what batches take, for any queue and any order of events."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.etcd import KeyValue
from nexus.queue.errors import QueueError
from nexus.queue.etcd.deleting import runs_of
from nexus.queue.etcd.layout import Slot
from nexus.queue.etcd.planning import (
    PIECE_READINGS,
    Found,
    Listing,
    cut,
    pieces,
    reached,
    shares,
    taken,
)
from nexus.queue.etcd.positions import (
    Backwards,
    Position,
    Positions,
    Window,
    all_have,
    positions_of,
    window,
)

A, B = Slot("east", 0), Slot("west/odd", 12)
names = st.binary(min_size=1, max_size=6).filter(lambda name: b"/" not in name)
positions = st.one_of(
    st.integers(0, 50).map(Position),
    st.tuples(st.integers(0, 50), st.integers(51, 99), names).map(lambda said: Position(*said)),
)


@given(st.integers(0, 9), st.dictionaries(st.sampled_from([A, B]), positions))
def test_positions_come_back_from_a_checkpoint(floor: int, slots: dict[Slot, Position]) -> None:
    whole = Positions(floor, slots, "0123abcd")
    text = json.dumps(whole.to_json())
    assert positions_of(json.loads(text)) == whole
    turned = Positions(floor, dict(reversed(slots.items())), "0123abcd")
    assert json.dumps(turned.to_json()) == text, "the same in whatever order"


@pytest.mark.parametrize(
    "said",
    [
        {"0": 12},
        {"*": 1, "queue": "", "a/0": {}},
        {"*": 1, "queue": "", "a/b": [2]},
        {"*": 1},
        {},
    ],
)
def test_a_checkpoint_of_another_queue_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(QueueError, match="new checkpoint"):
        positions_of(said)


class Queue:
    """One slot: (name, revision) of messages, put by whoever."""

    def __init__(self) -> None:
        self.revision = 0
        self.messages: dict[bytes, int] = {}

    def put(self, name: bytes) -> None:
        self.revision += 1
        self.messages[name] = self.revision

    def within(self, between: Window) -> list[bytes]:
        return sorted(
            name
            for name, revision in self.messages.items()
            if between.holds(revision)
            and name > between.first
            and (between.last is None or name <= between.last)
        )


def next_position(queue: Queue, here: Position, most: int) -> Position:
    """As the planner does it."""
    sweep = here.sweep or queue.revision
    rest = queue.within(Window(here.done, sweep, here.name))
    whole = Listing(tuple(Found(name, 1) for name in rest), is_whole=True)
    return reached(here, sweep, cut(whole, most))


@given(st.data())
def test_batches_hold_every_message_once_whenever_it_came(data: st.DataObject) -> None:
    queue, here = Queue(), Position(0)
    batches: list[tuple[Window, list[bytes]]] = []
    for _ in range(data.draw(st.integers(1, 8))):
        for name in data.draw(st.lists(names, max_size=6)):
            if name not in queue.messages:
                queue.put(name)
        there = next_position(queue, here, data.draw(st.integers(1, 4)))
        between = window(here, there)
        if between is not None:
            batches.append((between, queue.within(between)))
        here = there
    while (there := next_position(queue, here, 3)) != here:
        between = window(here, there)
        assert between is not None
        batches.append((between, queue.within(between)))
        here = there
    assert sorted(n for _, batch in batches for n in batch) == sorted(queue.messages)
    for between, batch in batches:
        assert queue.within(between) == batch, "the same on replay"
    assert all(here.has(name, revision) for name, revision in queue.messages.items())


@given(st.data())
def test_a_position_has_what_was_in_the_batches_before_it(data: st.DataObject) -> None:
    queue, here = Queue(), Position(0)
    done: set[bytes] = set()
    for _ in range(data.draw(st.integers(1, 6))):
        for name in data.draw(st.lists(names, max_size=5)):
            if name not in queue.messages:
                queue.put(name)
        there = next_position(queue, here, data.draw(st.integers(1, 3)))
        between = window(here, there)
        done |= set(queue.within(between)) if between is not None else set()
        here = there
        assert {n for n, revision in queue.messages.items() if here.has(n, revision)} == done


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (Position(5), Position(4)),
        (Position(5, 9, b"k"), Position(5, 9, b"a")),
        (Position(5, 9, b"k"), Position(8)),
        (Position(5, 9, b"k"), Position(5)),
        (Position(5), Position(4, 9, b"k")),
    ],
)
def test_a_batch_cannot_end_before_it_begins(begin: Position, end: Position) -> None:
    with pytest.raises(Backwards):
        window(begin, end)


def test_only_what_every_store_has_may_go() -> None:
    stores = (Position(5, 9, b"m"), Position(7))
    assert all_have(stores, b"z", 5)
    assert all_have(stores, b"a", 7)
    assert not all_have(stores, b"a", 8), "the second has not come to it"
    assert not all_have(stores, b"z", 7), "nor the first, in key order"


@given(st.dictionaries(st.sampled_from([A, B]), st.integers(0, 10**6)), st.integers(1, 10**6))
def test_every_slot_with_messages_gets_a_share(keys: dict[Slot, int], readings: int) -> None:
    given_out = shares(keys, readings)
    assert set(given_out) == {slot for slot, count in keys.items() if count}
    assert sum(given_out.values()) <= readings + len(given_out)
    assert all(share >= 1 for share in given_out.values())


def test_a_batch_takes_one_message_at_least() -> None:
    assert taken([Found(b"a", 500), Found(b"b", 1)], 100) == 1
    assert taken([Found(b"a", 50), Found(b"b", 50), Found(b"c", 1)], 100) == 2


@given(
    st.lists(st.lists(st.integers(1, 3 * PIECE_READINGS), max_size=12), max_size=4),
    st.integers(1, 6),
)
def test_tasks_share_the_work_and_hold_each_message_once(
    sizes: Sequence[Sequence[int]], tasks: int
) -> None:
    windows = {
        Slot("c", number): (
            Window(3, 9, b"", None),
            [Found(b"%03d" % n, size) for n, size in enumerate(slot)],
        )
        for number, slot in enumerate(sizes)
    }
    parts = pieces(windows, tasks)
    assert len(parts) <= tasks
    for slot, (whole, found) in windows.items():
        mine = [piece for part in parts for piece in part if piece.slot == slot]
        held = [
            each.name
            for piece in mine
            for each in found
            if each.name > piece.window.first
            and (piece.window.last is None or each.name <= piece.window.last)
        ]
        assert held == [each.name for each in found]
        assert sum(piece.keys for piece in mine) == len(found)
        if mine:
            assert mine[-1].window.last == whole.last


def test_runs_are_cut_where_a_message_is_not_done() -> None:
    items = [KeyValue(b"/q/%d" % n, b"", n, n, 1, 0) for n in range(6)]
    runs = runs_of(items, lambda item: item.mod_revision not in (0, 3))
    assert [(run.keys.start, run.keys.end, run.holds.keys) for run in runs] == [
        (b"/q/1", b"/q/2\0", 2),
        (b"/q/4", b"/q/5\0", 2),
    ]
    assert runs_of(items, lambda _: False) == []
