"""What a streamer has done so far: plain numbers that the display, the pages and the end share."""

from __future__ import annotations

from collections import Counter as Counts
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_WINDOW_S: Final = 5.0
_REASONS_MAX: Final = 100


@dataclass(slots=True)
class Stats:
    """Counted in the event loop only."""

    clock: Callable[[], float]
    began_at: float = 0.0
    blocks: int = 0
    readings_read: int = 0
    readings_acknowledged: int = 0
    messages_acknowledged: int = 0
    bytes_acknowledged: int = 0
    readings_refused: int = 0
    readings_lost: int = 0
    readings_spooled: int = 0
    spool_bytes: int = 0
    passes: int = 0
    last_refusal: str = ""
    rejected: Counts[str] = field(default_factory=Counts)
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.began_at = self.clock()

    @property
    def rows_rejected(self) -> int:
        return sum(self.rejected.values())

    @property
    def errors(self) -> int:
        """Everything that did not become an acknowledged reading and never will."""
        return self.rows_rejected + self.readings_refused + self.readings_lost

    @property
    def seconds(self) -> float:
        return self.clock() - self.began_at

    @property
    def rate_overall(self) -> float:
        return self.readings_acknowledged / max(self.seconds, 1e-9)

    def acknowledged(self, readings: int, messages: int, size: int) -> None:
        self.readings_acknowledged += readings
        self.messages_acknowledged += messages
        self.bytes_acknowledged += size
        self._recent.append((self.clock(), readings))
        self._forget()

    def reject(self, reason: str) -> None:
        """Count a bad row; reasons are few, but nobody can promise that for every source."""
        known = reason in self.rejected or len(self.rejected) < _REASONS_MAX
        self.rejected[reason if known else "other"] += 1

    def rate(self) -> float:
        """Readings acknowledged in a second, lately."""
        self._forget()
        span = min(self.seconds, _WINDOW_S)
        return sum([readings for _, readings in self._recent]) / max(span, 1e-3)

    def _forget(self) -> None:
        oldest = self.clock() - _WINDOW_S
        while self._recent and self._recent[0][0] < oldest:
            self._recent.popleft()
