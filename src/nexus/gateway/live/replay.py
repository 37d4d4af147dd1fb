"""What a client missed, read from the queue again: at most the last minute, and gaps are told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from nexus.gateway.live.messages import pieces, table_of
from nexus.gateway.live.metrics import LiveMetrics
from nexus.gateway.live.position import Position
from nexus.gateway.live.ring import AGE_MAX_S, Gap
from nexus.queue.errors import QueueError
from nexus.queue.port import Bounds, Reader

AT_ONCE: Final = 8  # each holds a connection for as long as its client takes
_THREADS: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """Readings (LIVE_SCHEMA), and where a client is that has them."""

    table: pa.Table
    end: Position


Items = Generator[Replayed | Gap, None, None]


class Replaying(Protocol):
    """Where clients get what they missed."""

    def between(
        self, wanted: Position, until: Position
    ) -> AsyncGenerator[Replayed | Gap, None]: ...
    async def close(self) -> None: ...


class Replays:
    """Reads for several clients; for one event loop."""

    def __init__(
        self,
        reader: Reader,
        metrics: LiveMetrics,
        *,
        age_s: float = AGE_MAX_S,
        patience_s: float = 10.0,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._reader, self._metrics, self._now_ms = reader, metrics, now_ms
        self._age_ms, self._patience_s = int(age_s * 1000), patience_s
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._pool = ThreadPoolExecutor(_THREADS, "live-replay")

    async def between(
        self, wanted: Position, until: Position
    ) -> AsyncGenerator[Replayed | Gap, None]:
        """What came between two positions. One partition's readings stay in their order."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._turns.acquire()
        except TimeoutError:
            yield Gap(wanted.time_ms, self._now_ms(), "too many clients replay at once")
            return
        self._metrics.replays.inc()
        items = self._items(wanted, until)
        asked: Future[Replayed | Gap | None] | None = None
        try:
            while True:
                asked = self._pool.submit(next, items, None)
                item = await asyncio.wrap_future(asked)
                if item is None:
                    return
                yield item
        finally:
            self._turns.release()
            self._close(items, asked)

    async def close(self) -> None:
        """Give up the connections; safe to call twice."""
        await asyncio.to_thread(self._pool.shutdown)
        await asyncio.to_thread(self._reader.close)

    def _close(self, items: Items, asked: Future[Replayed | Gap | None] | None) -> None:
        """A generator must not be closed while it runs: its last answer comes first."""

        def close(_: object) -> None:
            with suppress(RuntimeError):  # the pool is shut down, and the reader with it
                self._pool.submit(items.close)

        if asked is not None:
            asked.add_done_callback(close)

    def _items(self, wanted: Position, until: Position) -> Items:
        try:
            start, gap = self._start(wanted, until)
            if gap is not None:
                yield gap
            yield from self._read(start, wanted, until)
        except QueueError as error:
            yield Gap(wanted.time_ms, self._now_ms(), str(error))

    def _start(self, wanted: Position, until: Position) -> tuple[dict[int, int], Gap | None]:
        """Where to begin in each partition, and what is missing before."""
        now_ms = self._now_ms()
        floor_ms = now_ms - self._age_ms
        floor = self._reader.offsets_at(floor_ms)
        bounds = self._reader.bounds()
        start = {p: wanted.offsets.get(p, 0) for p in until.offsets}
        if _is_beyond(start, bounds):
            reason = "the queue is not the one it was: it lost messages, or was made anew"
            return {}, Gap(wanted.time_ms, now_ms, reason)
        begin = {p: max(at, floor.get(p, at), bounds[p].start) for p, at in start.items()}
        too_old = any(at < begin[p] for p, at in start.items() if p in wanted.offsets)
        if not too_old:
            return begin, None
        reason = f"at most the last {self._age_ms // 1000} s are replayed"
        return begin, Gap(min(wanted.time_ms, floor_ms), floor_ms, reason)

    def _read(
        self, start: Mapping[int, int], wanted: Position, until: Position
    ) -> Iterator[Replayed]:
        # Until all is read, the position is as old as what was wanted.
        time_ms = max(wanted.time_ms, self._now_ms() - self._age_ms)
        at = dict(start)
        for partition, first in start.items():
            for batch in self._reader.read(partition, first, until.offsets[partition]):
                for piece in pieces(batch):
                    at[partition] = piece[-1].offset + 1
                    yield Replayed(table_of(piece, self._metrics), Position(time_ms, dict(at)))
            at[partition] = max(first, until.offsets[partition])


def _is_beyond(start: Mapping[int, int], bounds: Mapping[int, Bounds]) -> bool:
    return any(p not in bounds or at > bounds[p].end for p, at in start.items())
