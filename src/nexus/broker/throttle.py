"""A limit on bytes a second, with a second's worth saved up: asked before, told after."""

from __future__ import annotations

from collections.abc import Callable

from nexus.settings.units import UNLIMITED


class Throttle:
    """How much may be moved now. What was more than that is made up for later."""

    def __init__(self, rate: int, now: Callable[[], float]) -> None:
        self._now = now
        self._rate = rate
        self._room = float(rate)
        self._at = now()

    def set_rate(self, rate: int) -> None:
        """Another limit from now on."""
        self._rate = rate
        self._room = min(self._room, float(rate))

    @property
    def room(self) -> float:
        """Bytes that may be moved now; below 1 where it is to wait."""
        if self._rate == UNLIMITED:
            return float("inf")
        now = self._now()
        self._room = min(self._room + (now - self._at) * self._rate, float(self._rate))
        self._at = now
        return self._room

    def took(self, size: int) -> None:
        """So much was moved."""
        self._room -= size
