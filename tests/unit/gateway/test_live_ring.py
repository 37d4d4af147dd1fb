"""The ring: what came lately, within its bounds."""

from __future__ import annotations

import pytest

from nexus.gateway.live.position import Position
from nexus.gateway.live.ring import Block, Ring
from support.live import live_rows

TABLE = live_rows({"uuid": "a"})


def block(offset: int, made_at: float = 0.0) -> Block:
    return Block(TABLE, Position(offset * 1000, {0: offset}), made_at)


def ring_of(count: int, **bounds: float) -> Ring:
    ring = Ring(Position(0, {0: 0}), 10, **bounds)  # type: ignore[arg-type]
    for number in range(1, count + 1):
        ring.append(block(number, float(number)))
    return ring


def test_a_place_knows_what_comes_behind_it() -> None:
    ring = ring_of(3)
    assert (ring.first, ring.last, ring.end.offsets) == (10, 13, {0: 3})
    assert [b.end.offsets[0] for b in ring.after(11) or ()] == [2, 3]
    assert ring.after(13) == []


def test_what_is_too_old_goes_and_places_before_it_are_gone() -> None:
    ring = ring_of(5, age_s=2.0)
    assert (ring.first, ring.last, ring.start.offsets) == (12, 15, {0: 2})
    assert ring.after(11) is None
    assert len(ring.after(12) or ()) == 3


def test_what_is_too_much_goes_but_never_the_newest() -> None:
    ring = ring_of(100, bytes_max=5 * block(0).size)
    assert (ring.last - ring.first, ring.bytes) == (5, 5 * block(0).size)
    tight = ring_of(100, bytes_max=1)
    assert [b.end.offsets[0] for b in tight.after(tight.first) or ()] == [100]


@pytest.mark.parametrize(
    ("offset", "place", "at"), [(0, 10, 0), (1, 11, 1), (3, 13, 3), (99, 13, 3)]
)
def test_a_position_has_its_place(offset: int, place: int, at: int) -> None:
    assert ring_of(3).place_of(Position(0, {0: offset})) == (place, Position(at * 1000, {0: at}))


def test_the_place_of_a_position_has_all_its_partitions_behind_it() -> None:
    ring = Ring(Position(0, {0: 0, 1: 0}), 0)
    for number, offsets in enumerate([{0: 2, 1: 0}, {0: 2, 1: 3}, {0: 4, 1: 3}], 1):
        ring.append(Block(TABLE, Position(number, offsets), 0.0))
    assert ring.place_of(Position(0, {0: 1, 1: 2}))[0] == 2
    assert ring.place_of(Position(0, {0: 0, 1: 0}))[0] == 0
