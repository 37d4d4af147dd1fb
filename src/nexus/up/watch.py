"""Looks at the parts while they run: how much is stored, how much waits, and their memory."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from nexus.up.asking import ask_soon
from nexus.up.memory import pss_bytes

_LOOK_S: Final = 2.0
_LOOK_FIRST_S: Final = 0.5
_MEMORY_S: Final = 4.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What was last seen; None where nobody said."""

    readings: int | None = None
    rate: float | None = None
    lag_messages: int | None = None
    problem: str = ""
    memory_bytes: int = 0
    memory_peak_bytes: int = 0
    rows_after_s: float | None = None  # when the first rows could be seen
    stored: int | None = None  # by all collectors of this run, as they last said
    counted: int = 0  # what the one of now last said


class Watcher:
    """`run` until cancelled; `sight` is what was last seen."""

    def __init__(
        self,
        collector_url: str | None,
        gateway_url: str | None,
        show: Callable[[Sight], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collector, self._gateway = collector_url, gateway_url
        self._show, self._clock = show, clock
        self._began = clock()
        self._measured = float("-inf")
        self.sight = Sight()

    async def run(self) -> None:
        while True:
            await self._look()
            self._show(self.sight)
            waiting = self.sight.rows_after_s is None
            await asyncio.sleep(_LOOK_FIRST_S if waiting else _LOOK_S)

    async def _look(self) -> None:
        if self._collector is not None:
            said = (await ask_soon(f"{self._collector}/api/v1/status")).body
            self.sight = seen(self.sight, said)
        if self.sight.rows_after_s is None and await self._has_rows():
            self.sight = replace(self.sight, rows_after_s=self._clock() - self._began)
        if self._clock() - self._measured >= _MEMORY_S:
            self._measured = self._clock()
            now = await asyncio.to_thread(pss_bytes, os.getpid())
            peak = max(now, self.sight.memory_peak_bytes)
            self.sight = replace(self.sight, memory_bytes=now, memory_peak_bytes=peak)

    async def _has_rows(self) -> bool:
        """Where people look: on the dashboard, or in the tables if there is no dashboard."""
        if self._gateway is None:
            return bool(self.sight.readings)
        answer = await ask_soon(f"{self._gateway}/api/v1/telemetry/latest?limit=1")
        return bool(answer.status == 200 and answer.body.get("data"))


def seen(before: Sight, status: dict[str, Any]) -> Sight:
    """The collector's own numbers; one that says nothing has none."""
    readings = status.get("readings")
    return replace(
        before,
        readings=readings,
        stored=_stored(before, readings),
        counted=before.counted if readings is None else readings,
        rate=status.get("rate"),
        lag_messages=status.get("lag_messages"),
        problem=str(status.get("problem") or ""),
    )


def _stored(before: Sight, readings: int | None) -> int | None:
    """A collector counts from its own start: what it adds is what it has more than before."""
    if readings is None:
        return before.stored
    since = before.counted if readings >= before.counted else 0
    return (before.stored or 0) + readings - since
