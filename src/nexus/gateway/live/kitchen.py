"""Makes the data of events for clients, in threads, and each only once however many want it.

Blocks as they come have a thread of their own, so that nobody who keeps up waits for the work
that slow clients make.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import pyarrow as pa

from nexus.gateway.live.columns import joined
from nexus.gateway.live.filters import selected
from nexus.gateway.live.newest import newest
from nexus.gateway.live.render import event_slices, rendered
from nexus.gateway.live.ring import Block
from nexus.store.port import Selection

T = TypeVar("T")
KEPT_BYTES: Final = 32 << 20
KEPT_MAX: Final = 1024
SERIES_MAX: Final = 250_000  # of one answer; what is older is left out


class Kitchen:
    """For one event loop."""

    def __init__(self, *, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._bytes = 0
        self._made: OrderedDict[Hashable, tuple[asyncio.Future[Any], int]] = OrderedDict()
        self._quick = ThreadPoolExecutor(1, "live-blocks")
        self._bulk = ThreadPoolExecutor(1, "live-newest")

    async def block(self, place: int, block: Block, which: Selection) -> Sequence[bytes]:
        """All the readings of the block at a place that a client wants, as data of events."""
        return await self._once((place, which), self._quick, lambda: _whole(block, which))

    async def newest(
        self, place: int, blocks: Sequence[Block], which: Selection
    ) -> Sequence[pa.Table]:
        """The newest of each series in the blocks behind a place, in tables for `data`."""
        key = (place, place + len(blocks), which)
        taken = list(blocks)
        return await self._once(key, self._bulk, lambda: _newest(taken, which))

    async def data(self, key: Hashable, table: pa.Table) -> bytes:
        """One of those tables as the data of an event; who has the same key has the same table."""
        return await self._once(key, self._bulk, lambda: rendered(table))

    async def replayed(self, table: pa.Table, which: Selection) -> Sequence[bytes]:
        """Readings that one client missed."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._bulk, _rendered, table, which)

    async def close(self) -> None:
        for pool in (self._quick, self._bulk):
            await asyncio.to_thread(pool.shutdown)

    async def _once(self, key: Hashable, pool: ThreadPoolExecutor, make: Callable[[], T]) -> T:
        known = self._made.get(key)
        if known is None:
            future = asyncio.get_running_loop().run_in_executor(pool, make)
            self._made[key] = (future, 0)
            future.add_done_callback(lambda done: self._keep(key, done))
        else:
            future = known[0]
        # One who goes away must not take it from the others.
        return await asyncio.shield(future)

    def _keep(self, key: Hashable, done: asyncio.Future[Any]) -> None:
        """Keep what was made for those who come a little later, within bounds."""
        if done.cancelled() or done.exception() is not None:
            self._made.pop(key, None)
            return
        size = _size(done.result())
        self._made[key] = (done, size)
        self._bytes += size
        while self._made and (self._bytes > self._kept_bytes or len(self._made) > KEPT_MAX):
            oldest, (future, freed) = next(iter(self._made.items()))
            if not future.done():
                return
            del self._made[oldest]
            self._bytes -= freed


def _whole(block: Block, which: Selection) -> list[bytes]:
    return _rendered(block.table, which)


def _rendered(table: pa.Table, which: Selection) -> list[bytes]:
    return [rendered(piece) for piece in event_slices(selected(table, which))]


def _newest(blocks: Sequence[Block], which: Selection) -> list[pa.Table]:
    tables = [selected(block.table, which) for block in blocks]
    some = [table for table in tables if table.num_rows]
    if not some:
        return []
    last = newest(joined(some))
    return list(event_slices(last.slice(max(0, last.num_rows - SERIES_MAX))))


def _size(made: bytes | pa.Table | Sequence[bytes] | Sequence[pa.Table]) -> int:
    if isinstance(made, bytes):
        return len(made)
    return int(made.nbytes) if isinstance(made, pa.Table) else sum(map(_size, made))
