"""What one of the workers does for all: adopts loose keys, compacts history, folds counters.

Where collectors lead, they do the same. To do it twice does no harm, only work.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from nexus.etcd import Client, EtcdError, Fence, Lease, LeaseLost, claim
from nexus.queue.errors import QueueError
from nexus.queue.etcd.compaction import Compactor
from nexus.queue.etcd.counts import fold
from nexus.queue.etcd.layout import Layout
from nexus.queue.etcd.slots import probe

EVERY_S: Final = 2.0
FOLD_EVERY_S: Final = 600.0
_log: Final = logging.getLogger(__name__)


class Housekeeping:
    """Stands to be the one that does it; runs until cancelled, or until the lease is lost."""

    def __init__(
        self, client: Client, layout: Layout, worker: str, every_s: float = EVERY_S
    ) -> None:
        self._client = client
        self._layout = layout
        self._worker = worker
        self._every_s = every_s
        self._compactor = Compactor(client, layout.meta("config"))
        self._folded_at = 0.0

    async def run(self, lease: Lease) -> None:
        key = self._layout.meta("housekeeper")
        while not lease.lost():
            try:
                fence = await claim(self._client, key, self._worker.encode(), lease)
                await self._keep(fence, lease)
            except LeaseLost:
                return
            except (EtcdError, QueueError) as error:
                _log.warning("queue %s: housekeeping: %s", self._layout.prefix, error)
                await asyncio.sleep(self._every_s)

    async def _keep(self, fence: Fence, lease: Lease) -> None:
        while not lease.lost():
            await self._do(fence)
            await asyncio.sleep(self._every_s)

    async def _do(self, fence: Fence) -> None:
        found = await probe(self._client, self._layout)
        if found.registered or found.adopted:
            _log.info(
                "queue %s: %d slots registered, %d keys adopted that other programs put",
                self._layout.prefix,
                len(found.registered),
                found.adopted,
            )
        await self._compactor.step()
        if time.monotonic() - self._folded_at >= FOLD_EVERY_S or not self._folded_at:
            await fold(self._client, self._layout, time.time_ns() // 1_000_000, fence=fence)
            self._folded_at = time.monotonic()
