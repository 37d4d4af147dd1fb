"""Producer ids: unique for ever, handed out from blocks that are reserved on disk first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

BLOCK: Final = 1000


class ProducerIds:
    """Hands out ids; a crash skips the rest of a block and repeats none."""

    def __init__(self, reserve: Callable[[int], Awaitable[range]]) -> None:
        self._reserve = reserve
        self._block: Iterator[int] = iter(())
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """An id that nobody had before."""
        async with self._lock:
            found = next(self._block, None)
            if found is None:
                self._block = iter(await self._reserve(BLOCK))
                found = next(self._block)
            return found
