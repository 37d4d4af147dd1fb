"""Bytes that are moved keep to a rate, whatever the steps in which they are."""

from __future__ import annotations

import pytest

from nexus.broker.throttle import Throttle
from nexus.settings.units import UNLIMITED


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def seconds_for(size: int, rate: int, step: int) -> float:
    """How long it takes to move so much, in steps that may be larger than what is free."""
    clock = Clock()
    throttle = Throttle(rate, clock)
    moved = 0
    while moved < size:
        if throttle.room < 1:
            clock.now += 0.05
            continue
        throttle.took(step)
        moved += step
    return clock.now - 100.0


@pytest.mark.parametrize("step", [100, 5_000, 50_000])
def test_half_the_rate_takes_twice_as_long(step: int) -> None:
    ratio = seconds_for(1_000_000, 10_000, step) / seconds_for(1_000_000, 20_000, step)
    assert 1.9 < ratio < 2.1


def test_no_limit_is_none() -> None:
    assert seconds_for(1_000_000, UNLIMITED, 1_000) == 0


def test_another_rate_counts_at_once() -> None:
    clock = Clock()
    throttle = Throttle(1_000_000, clock)
    throttle.set_rate(1_000)
    throttle.took(int(throttle.room))
    clock.now += 0.5
    assert throttle.room == 500
    throttle.set_rate(UNLIMITED)
    assert throttle.room > 1e9
