"""How fast readings go: so many at a time, as their own clock says, or as fast as they can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.reading import TIMESTAMP

_RATE_STEP_S: Final = 0.1
_SPEED_STEP_S: Final = 0.05

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


class Pacer(Protocol):
    """Cuts a table into pieces and gives each out when it is due."""

    def pieces(self, table: pa.Table) -> AsyncIterator[pa.Table]: ...


class FlatOut:
    """No pace at all."""

    async def pieces(self, table: pa.Table) -> AsyncIterator[pa.Table]:
        yield table


@dataclass(frozen=True, slots=True)
class Grant:
    """So many readings in every period."""

    rows: float
    period_s: float


def grant_for_rate(rate: float) -> Grant:
    """A rate in small steps; below one reading a step, one reading in a longer step."""
    period = max(_RATE_STEP_S, 1 / rate)
    return Grant(rate * period, period)


class Granted:
    """`grant.rows` readings every period; what was not used in time is not made up for."""

    def __init__(self, grant: Grant, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        self._grant, self._clock, self._sleep = grant, clock, sleep
        self._credit = 0.0
        self._due: float | None = None

    async def pieces(self, table: pa.Table) -> AsyncIterator[pa.Table]:
        at = 0
        while at < table.num_rows:
            rows = min(int(self._credit), table.num_rows - at)
            if rows < 1:
                await self._next_period()
                continue
            self._credit -= rows
            yield table.slice(at, rows)
            at += rows

    async def _next_period(self) -> None:
        now = self._clock()
        due = now if self._due is None else self._due
        if due > now:
            await self._sleep(due - now)
        self._due = max(due, now - self._grant.period_s) + self._grant.period_s
        self._credit += self._grant.rows


class AsRecorded:
    """As the readings' own times say, `speed` times as fast; the first is due at once.

    Files are often metric-major, so time runs back and forth: a reading is due when the latest
    time before it is.
    """

    def __init__(self, speed: float, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        self._speed, self._clock, self._sleep = speed, clock, sleep
        self._origin_us: int | None = None
        self._latest_us = 0
        self._began = 0.0

    async def pieces(self, table: pa.Table) -> AsyncIterator[pa.Table]:
        if not table.num_rows:
            yield table
            return
        due = self._due_times(table)
        at = 0
        while at < table.num_rows:
            reached_us = self._origin() + (self._clock() - self._began) * 1e6 * self._speed
            rows = self._count_due(due.slice(at), reached_us)
            if rows:
                yield table.slice(at, rows)
                at += rows
            else:
                wait_s = (due[at].as_py() - reached_us) / 1e6 / self._speed
                await self._sleep(max(wait_s, _SPEED_STEP_S))

    def _due_times(self, table: pa.Table) -> pa.Array:
        times = table.column("timestamp").cast(TIMESTAMP).cast(pa.int64()).combine_chunks()
        if self._origin_us is None:
            self._origin_us = self._latest_us = int(times[0].as_py())
            self._began = self._clock()
        due = pc.max_element_wise(pc.cumulative_max(times), self._latest_us)
        self._latest_us = int(due[-1].as_py())
        return due

    def _origin(self) -> int:
        return self._origin_us or 0

    @staticmethod
    def _count_due(due: pa.Array, reached_us: float) -> int:
        return int(pc.sum(pc.less_equal(due, int(reached_us))).as_py() or 0)
