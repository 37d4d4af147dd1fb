"""Deadlines: the earliest first, cheap to move, and none that was called off."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexus.groups.timers import Timers

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
KEYS = st.integers(0, 9)
MOVES = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 1_000)), max_size=200)


def test_a_deadline_that_moves_on_fires_once_and_late() -> None:
    timers: Timers[str] = Timers()
    timers.schedule("a", 10)
    timers.schedule("a", 30)
    timers.schedule("b", 20)
    assert timers.next_ms() == 20
    assert [timers.pop(25), timers.pop(25)] == ["b", None]
    assert [timers.pop(30), timers.pop(30)] == ["a", None]


def test_a_deadline_that_moves_forward_fires_early() -> None:
    timers: Timers[str] = Timers()
    timers.schedule("a", 30)
    timers.schedule("a", 10)
    assert [timers.pop(10), timers.pop(99)] == ["a", None]


def test_ten_thousand_heartbeats_do_not_grow_the_heap() -> None:
    timers: Timers[int] = Timers()
    for now in range(100):
        for key in range(100):
            timers.schedule(key, now + 1_000)
    assert len(timers._heap) == 100


def test_deadlines_that_come_and_go_do_not_pile_up() -> None:
    timers: Timers[int] = Timers()
    for key in range(10_000):
        timers.schedule(key, 1_000_000)
        timers.cancel(key)
    assert len(timers._heap) < 100
    assert timers.next_ms() is None


def test_deadlines_that_stand_survive_those_that_come_and_go() -> None:
    timers: Timers[int] = Timers()
    timers.schedule(-1, 500)
    for key in range(1_000):
        timers.schedule(key, 1_000_000)
        timers.cancel(key)
    assert len(timers) == 1
    assert timers.pop(500) == -1


@unhurried
@given(MOVES)
def test_timers_agree_with_a_plain_dictionary(moves: list[tuple[int, int | None]]) -> None:
    timers: Timers[int] = Timers()
    model: dict[int, int] = {}
    for key, due in moves:
        if due is None:
            timers.cancel(key)
            model.pop(key, None)
        else:
            timers.schedule(key, due)
            model[key] = due
        assert timers.next_ms() == min(model.values(), default=None)
    fired = []
    while (at := timers.next_ms()) is not None:
        key_due = timers.pop(at)
        assert key_due is not None
        fired.append((model.pop(key_due), at))
    assert model == {}
    assert all(due == at for due, at in fired)
