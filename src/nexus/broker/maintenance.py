"""The broker's background work: recovery points, retention, compaction, flushing by interval, and
bringing failed partitions back. All of it on worker threads, never on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import spawn
from nexus.broker.partition import Partition
from nexus.observe.logs import get_logger
from nexus.wire.errors import StorageError

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

log = get_logger(__name__)

REOPEN_SECONDS_FIRST: Final = 0.2
REOPEN_SECONDS_MAX: Final = 5.0


class Maintenance:
    """Runs each chore at its own pace until stopped."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []
        self._reopening: dict[Partition, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start the chores that the settings call for."""
        storage = self._broker.settings.storage
        self._every(storage.recovery_point_interval_ms, self._checkpoint)
        self._every(storage.retention_check_interval_ms, self._clean)
        if storage.fsync == "interval":
            self._every(storage.fsync_interval_ms, self._flush)
        for partition in self._broker.topics.partitions():
            if partition.log.failure is not None:
                self.bring_back(partition)

    async def stop(self) -> None:
        """End the chores; what is on a thread is waited for."""
        tasks = [*self._tasks, *self._reopening.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def bring_back(self, partition: Partition) -> None:
        """Try again and again to reopen a partition whose disk failed."""
        if partition in self._reopening or self._broker.is_stopping:
            return
        log.error(
            "partition is offline",
            topic=partition.topic,
            partition=partition.index,
            why=str(partition.log.failure),
        )
        task = spawn(self._broker.loop, self._reopen(partition))
        self._reopening[partition] = task
        task.add_done_callback(lambda _: self._reopening.pop(partition, None))

    def _every(self, interval_ms: int, chore: Callable[[], Awaitable[None]]) -> None:
        async def repeat() -> None:
            while True:
                await asyncio.sleep(interval_ms / 1000)
                try:
                    await chore()
                except StorageError as error:  # a full disk, say: no defect of ours
                    log.error("background work failed", chore=chore.__name__, why=str(error))
                    self._broker.metrics.error("maintenance")
                except Exception as error:
                    log.exception("background work failed", chore=chore.__name__, why=str(error))
                    self._broker.metrics.error("maintenance")

        self._tasks.append(spawn(self._broker.loop, repeat()))

    async def _checkpoint(self) -> None:
        await self._broker.in_background(self._broker.store.checkpoint)

    async def _flush(self) -> None:
        for partition in self._broker.topics.partitions():
            if (
                partition.log.failure is None
                and partition.log.flushed_offset < partition.log.end_offset
            ):
                self._broker.flusher.request(partition)

    async def _clean(self) -> None:
        for partition in self._broker.topics.partitions():
            # What is not agreed on yet may still be replaced, and what it replaced come back.
            is_agreed = partition.high_watermark >= partition.log.active_base
            if partition.log.failure is None and not partition.is_retired and is_agreed:
                await self._broker.in_background(self._clean_one, partition)

    def _clean_one(self, partition: Partition) -> None:
        now = self._broker.now_ms()
        source = partition.log
        try:
            if source.config.delete and (freed := source.retain(now)):
                log.info("retention", topic=partition.topic, partition=partition.index, bytes=freed)
            if source.config.compact and (damage := source.compact(now).damage) is not None:
                self._broker.loop.call_soon_threadsafe(
                    self._broker.repairs.found, partition, damage.offset
                )
        except StorageError as error:
            self._broker.loop.call_soon_threadsafe(self._failed, partition, error)

    def _failed(self, partition: Partition, error: StorageError) -> None:
        if partition.log.failure is not None:
            partition.fail(error)

    async def _reopen(self, partition: Partition) -> None:
        delay = REOPEN_SECONDS_FIRST
        while not partition.is_retired:
            await asyncio.sleep(delay)
            try:
                await self._broker.in_background(partition.log.reopen)
            except StorageError:
                delay = min(delay * 2, REOPEN_SECONDS_MAX)
                continue
            partition.on_reopened()
            self._broker.replicas.came_back(partition)
            log.info("partition is back", topic=partition.topic, partition=partition.index)
            return
