"""What came lately, for all clients: bounded in time and in bytes, and numbered.

A client has a place in it and no queue of its own, so that a slow one costs no memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa

from nexus.gateway.live.position import Position

AGE_MAX_S: Final = 60.0
BYTES_MAX: Final = 64 << 20
_BLOCK_BYTES: Final = 4096  # what a block takes beside its readings, about


@dataclass(frozen=True, slots=True)
class Gap:
    """Something is missing between two times, and why."""

    from_ms: int | None
    to_ms: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Readings that came together (LIVE_SCHEMA), and where the queue goes on behind them."""

    table: pa.Table
    end: Position
    made_at: float  # by the monotonic clock
    gap: Gap | None = None  # before these readings

    @property
    def size(self) -> int:
        return int(self.table.nbytes) + _BLOCK_BYTES


class Ring:
    """Blocks under consecutive numbers. The place `n` is behind block n."""

    def __init__(
        self, start: Position, last: int, *, bytes_max: int = BYTES_MAX, age_s: float = AGE_MAX_S
    ) -> None:
        self.start = start  # what comes before the first block
        self.base = last  # the place at which this ring began
        self.last = last  # the place behind the newest block
        self.bytes = 0
        self._bytes_max, self._age_s = bytes_max, age_s
        self._blocks: deque[Block] = deque()

    @property
    def first(self) -> int:
        """The place before the oldest block."""
        return self.last - len(self._blocks)

    @property
    def end(self) -> Position:
        return self._blocks[-1].end if self._blocks else self.start

    def append(self, block: Block) -> None:
        self._blocks.append(block)
        self.last += 1
        self.bytes += block.size
        self.forget(block.made_at)

    def forget(self, now: float) -> None:
        """Let go of what is too old or too much; the newest block stays in any case."""
        while len(self._blocks) > 1 and (
            self.bytes > self._bytes_max or self._blocks[0].made_at < now - self._age_s
        ):
            gone = self._blocks.popleft()
            self.bytes -= gone.size
            self.start = gone.end

    def after(self, place: int) -> Sequence[Block] | None:
        """The blocks behind a place; None if some of them are gone."""
        if place < self.first:
            return None
        return list(islice(self._blocks, place - self.first, None))

    def place_of(self, wanted: Position) -> tuple[int, Position]:
        """The first place that has everything of a position behind it, or else the last one."""
        if self.start.is_at_least(wanted):
            return self.first, self.start
        for number, block in enumerate(self._blocks, self.first + 1):
            if block.end.is_at_least(wanted):
                return number, block.end
        return self.last, self.end
