"""The gateway's parts, and their lives: `start`, `stop` (safe to call twice)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nexus.gateway.live.hub import LiveHub
from nexus.gateway.metrics import GatewayMetrics
from nexus.gateway.pipeline_view import PipelineView
from nexus.gateway.pool import Pool
from nexus.gateway.queue_view import QueueView
from nexus.settings.gateway import GatewaySection
from nexus.store.opening import open_store
from nexus.store.port import Store

QUEUE_WORKERS: Final = 2
QUEUE_WAITING: Final = 64


@dataclass(slots=True)
class Gateway:
    """Everything that requests are answered from."""

    settings: GatewaySection
    store: Store
    pool: Pool
    queue_pool: Pool  # a queue that is away must not hold back questions to the store
    metrics: GatewayMetrics
    pipeline: PipelineView
    queue: QueueView | None
    live: LiveHub | None
    clock: Callable[[], float]
    began_at: float
    _stopped: bool = False

    def now_us(self) -> int:
        return int(self.clock() * 1_000_000)

    async def start(self) -> None:
        """In the event loop that serves the requests."""
        await self.pipeline.start()
        if self.live is not None:
            await self.live.start()

    async def end_streams(self) -> None:
        """End what would otherwise go on for as long as its client likes."""
        if self.live is not None:
            await self.live.stop()

    async def stop(self) -> None:
        """Let go of everything."""
        if self._stopped:
            return
        self._stopped = True
        await self.end_streams()
        await self.pipeline.stop()
        if self.queue is not None:
            self.queue.close()
        self.pool.close()
        self.queue_pool.close()
        self.store.close()


def build_gateway(settings: GatewaySection, clock: Callable[[], float] = time.time) -> Gateway:
    """A gateway as its settings say; nothing is asked of store or queue yet."""
    pool = Pool(settings.workers, settings.waiting, settings.timeout_ms / 1000)
    metrics = GatewayMetrics(pool)
    queue = QueueView(settings.queue) if settings.queue else None
    live = LiveHub(settings.queue, registry=metrics.registry) if settings.queue else None
    unknown_after_s = settings.unknown_after_ms / 1000
    return Gateway(
        settings=settings,
        # The last to be made: nothing after it can fail and leave it open.
        store=open_store(settings.store, unknown_after_s=unknown_after_s, clock=clock),
        pool=pool,
        queue_pool=Pool(QUEUE_WORKERS, QUEUE_WAITING, settings.timeout_ms / 1000, "queue"),
        metrics=metrics,
        pipeline=PipelineView(settings.collector_url),
        queue=queue,
        live=live,
        clock=clock,
        began_at=clock(),
    )
