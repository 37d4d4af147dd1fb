"""The circuit to a broker opens after failures, and lets one try when its pause is over."""

from __future__ import annotations

from nexus.proxy.breaker import FAILURES, PAUSE_MOST_S, PAUSE_S, Breaker


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(FAILURES):
        breaker.failed(at)
    return breaker


def test_a_few_failures_do_not_open_it() -> None:
    breaker = Breaker()
    for _ in range(FAILURES - 1):
        assert not breaker.failed(0.0)
    assert breaker.state(0.0) == "closed"
    assert breaker.admits(0.0)


def test_failures_in_a_row_open_it_once() -> None:
    breaker = Breaker()
    told = [breaker.failed(0.0) for _ in range(FAILURES + 2)]
    assert told.count(True) == 1
    assert breaker.state(0.1) == "open"
    assert not breaker.admits(0.1)


def test_a_success_between_failures_counts_anew() -> None:
    breaker = Breaker()
    for _ in range(FAILURES * 3):
        breaker.failed(0.0)
        assert not breaker.succeeded()
    assert breaker.state(0.0) == "closed"


def test_after_the_pause_one_may_try() -> None:
    breaker = opened()
    assert breaker.state(PAUSE_S) == "half-open"
    assert [breaker.admits(PAUSE_S) for _ in range(3)] == [True, False, False]


def test_a_good_try_closes_it() -> None:
    breaker = opened()
    assert breaker.admits(PAUSE_S)
    assert breaker.succeeded()
    assert breaker.state(PAUSE_S) == "closed"


def test_a_bad_try_doubles_the_pause_up_to_a_bound() -> None:
    breaker, now, pause = opened(), 0.0, PAUSE_S
    for _ in range(10):
        now += pause
        assert breaker.admits(now)
        breaker.failed(now)
        pause = min(pause * 2, PAUSE_MOST_S)
        assert breaker.state(now + pause * 0.99) == "open"
        assert breaker.state(now + pause) == "half-open"
