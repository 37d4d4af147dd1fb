"""Whether a broker is worth asking: after failures it is left alone for a while, then tried once.

A decision without a clock: every call says what time it is.
"""

from __future__ import annotations

from typing import Final, Literal

FAILURES: Final = 3  # in a row, until it is left alone
PAUSE_S: Final = 0.5
PAUSE_MOST_S: Final = 5.0

State = Literal["closed", "open", "half-open"]


class Breaker:
    """The circuit to one broker."""

    def __init__(self) -> None:
        self.failures = 0
        self._opened_at: float | None = None
        self._pause_s = PAUSE_S
        self._trying = False

    def state(self, now: float) -> State:
        if self._opened_at is None:
            return "closed"
        return "half-open" if now >= self._opened_at + self._pause_s else "open"

    def admits(self, now: float) -> bool:
        """Whether to ask; of those who come when the pause is over, one may."""
        state = self.state(now)
        if state != "half-open":
            return state == "closed"
        if self._trying:
            return False
        self._trying = True
        return True

    def succeeded(self) -> bool:
        """It answered; true when it had been left alone before."""
        was_open = self._opened_at is not None
        self.failures, self._opened_at, self._pause_s, self._trying = 0, None, PAUSE_S, False
        return was_open

    def failed(self, now: float) -> bool:
        """It did not; true when it is left alone from now on."""
        self.failures += 1
        if self._opened_at is not None:
            if self._trying:
                self._opened_at, self._trying = now, False
                self._pause_s = min(self._pause_s * 2, PAUSE_MOST_S)
            return False
        if self.failures < FAILURES:
            return False
        self._opened_at = now
        return True
