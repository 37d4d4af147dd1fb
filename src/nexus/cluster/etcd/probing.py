"""Finds brokers whose process is gone sooner than their lease ends: their port refuses.

Silence proves nothing, a refusal does, if the same registration was reached before: its host is
there and nobody listens. Then its lease may be revoked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from nexus.cluster.port import Member

_log: Final = logging.getLogger(__name__)
_EVERY_SECONDS: Final = 0.4
_CONNECT_SECONDS: Final = 1.0


class Prober:
    """Knocks at the doors of those it is told to watch."""

    def __init__(
        self, watched: Callable[[], list[Member]], bury: Callable[[Member], Awaitable[None]]
    ) -> None:
        self._watched = watched
        self._bury = bury
        self._reached: set[Member] = set()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            watched = self._watched()
            self._reached &= set(watched)
            await asyncio.gather(*(self._look(member) for member in watched))

    async def _look(self, member: Member) -> None:
        if await _is_there(member):
            self._reached.add(member)
        elif member in self._reached and not await _is_there(member):
            self._reached.discard(member)
            _log.warning("broker %d refuses connections: it counts as dead", member.id)
            await self._bury(member)


async def _is_there(member: Member) -> bool:
    """False only where the host says that nobody listens."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(member.host, member.port)
    except ConnectionRefusedError:
        return False
    except (OSError, TimeoutError):
        return True
    writer.transport.abort()
    return True
