"""One proxy: what its routes share, and the tasks that keep its picture of the brokers fresh."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic

from nexus.observe.logs import get_logger
from nexus.proxy.http import Budget
from nexus.proxy.metrics import ProxyMetrics
from nexus.proxy.openapi import description_of
from nexus.proxy.producing import Producing
from nexus.proxy.sharing.desks import Sharing
from nexus.proxy.table import ROUTES
from nexus.proxy.topics import Topics
from nexus.proxy.topology import Topology
from nexus.settings.proxy import ProxySection
from nexus.web.problems import Problem

log = get_logger(__name__)


class Proxy:
    """Holds nothing that another instance would miss."""

    def __init__(self, settings: ProxySection) -> None:
        self.settings = settings
        self.began_at = monotonic()
        self.request_timeout_s = settings.request_timeout_ms / 1000
        self.topology = Topology(
            settings.addresses,
            settings.connect_timeout_ms / 1000,
            is_static=settings.is_static,
            virtual_nodes=settings.virtual_nodes,
        )
        self.metrics = ProxyMetrics(self.topology)
        self.topics = Topics(self.topology, settings.max_partitions)
        self.producing = Producing(self.topology, self.topics, self.request_timeout_s)
        self.sharing = Sharing(self.topology, self.topics)
        self.budget = Budget(settings.in_flight_bytes)
        self.description = description_of(ROUTES)
        self.active = 0
        self.is_ending = False
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look for the brokers; go on without them where none answers yet."""
        with suppress(Problem):
            await self.topology.refresh()
        self._watching = asyncio.create_task(self._watch())

    async def end_streams(self) -> None:
        """End what would go on without an end, and take no more of it."""
        self.is_ending = True
        await self.sharing.close()

    async def stop(self) -> None:
        """Let go of the brokers; safe to call twice."""
        await self.end_streams()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self.topology.close()

    async def _watch(self) -> None:
        """Active health checks, and the news that no request brought."""
        while True:
            try:
                await self.topology.refresh()
            except Problem as problem:
                log.warning("no broker answers", why=problem.detail)
            await self.topology.check_health()
            await asyncio.sleep(self.settings.health_interval_s)
