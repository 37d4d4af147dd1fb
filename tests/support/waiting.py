"""Waiting for something to become true, with a deadline: what tests use instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], *, within: float = 10.0, what: str = "", every: float = 0.02
) -> T:
    """The first truthy answer of `condition`; an AssertionError with the last one when too late."""
    deadline = time.monotonic() + within
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {within:g} s: {what or condition} (last: {answer!r})")
        time.sleep(every)
