"""For queues that keep nothing for those who come back: all there is, a gateway holds itself.

The collector deletes what it has stored from a queue in etcd, within seconds. So a client that was
away goes on from the last minute in the gateway's memory, and hears of what is missing before it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from typing import Final

from nexus.gateway.live.position import Position
from nexus.gateway.live.replay import Replayed
from nexus.gateway.live.ring import Gap

REASON: Final = (
    "a queue in etcd does not keep what was collected, and this gateway did not look on then"
)


class NoReplays:
    """Has nothing to replay, and says so."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms

    async def between(
        self, wanted: Position, until: Position
    ) -> AsyncGenerator[Replayed | Gap, None]:
        """What came between two positions: nobody knows."""
        yield Gap(wanted.time_ms, until.time_ms or self._now_ms(), REASON)

    async def close(self) -> None:
        """Nothing is held."""
