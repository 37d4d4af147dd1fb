"""Group commit: flushes come in rounds, and everyone who waits at its beginning shares a round.

The kernel syncs the files of a round side by side and can merge their journal commits; flushes that
begin at any time had the longer tail in two of three noisy comparisons. A thread does the flushes
that need more than a file's data, and all of them where the kernel cannot.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import perf_counter

from nexus.broker.partition import Partition
from nexus.log import quick_sync
from nexus.log.kernel_sync import KernelSync
from nexus.log.quick_sync import QuickSync
from nexus.wire.errors import StorageError

Outcome = tuple[Partition, StorageError | None, float]


class Flusher:
    """Flushes partitions on request and tells them when it is done, on the event loop."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        threads: int,
        observe_seconds: Callable[[float], None],
        kernel: KernelSync | None,
    ) -> None:
        self._loop = loop
        self._observe_seconds = observe_seconds
        self._kernel = kernel
        self._requested: list[Partition] = []
        self._syncing = 0
        self._queue: SimpleQueue[Partition | None] = SimpleQueue()
        self._outcomes: deque[Outcome] = deque()
        self._threads = [
            threading.Thread(target=self._work, name=f"flush-{n}", daemon=True)
            for n in range(threads)
        ]

    def start(self) -> None:
        """Begin to flush."""
        for thread in self._threads:
            thread.start()
        if self._kernel is not None:
            self._loop.add_reader(self._kernel.fileno, self._kernel.reap)

    def stop(self) -> None:
        """Let the threads finish what they have and end; safe to call before `start`."""
        running = [thread for thread in self._threads if thread.is_alive()]
        for _ in running:
            self._queue.put(None)
        for thread in running:
            thread.join(timeout=5)
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.fileno)

    def request(self, partition: Partition) -> None:
        """Flush the partition in the next round."""
        if partition.flush_requested:
            return
        partition.flush_requested = True
        if not self._requested:
            # After what the event loop has at hand, so that it is shared.
            self._loop.call_soon(self._begin_round)
        self._requested.append(partition)

    def _begin_round(self) -> None:
        if self._syncing:
            return
        requested, self._requested = self._requested, []
        if self._kernel is None:
            self._hand_to_threads(requested)
            return
        began = perf_counter()
        plain = []
        for partition in requested:
            sync = quick_sync.begin(partition.log)
            if sync is None:
                self._queue.put(partition)
            else:
                told = partial(self._synced, partition, sync, began)
                plain.append((sync.fd, told, partition))
        self._syncing = taken = self._kernel.submit([(fd, told) for fd, told, _ in plain])
        self._hand_to_threads([partition for _, _, partition in plain[taken:]])

    def _hand_to_threads(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            self._queue.put(partition)

    def _synced(
        self, partition: Partition, sync: QuickSync, began: float, error: OSError | None
    ) -> None:
        failure: StorageError | None = None
        try:
            quick_sync.finish(partition.log, sync, error)
        except StorageError as storage_error:
            failure = storage_error
        self._settle(partition, failure, perf_counter() - began)
        self._syncing -= 1
        if not self._syncing and self._requested:
            self._loop.call_soon(self._begin_round)

    def _work(self) -> None:
        while (partition := self._queue.get()) is not None:
            began = perf_counter()
            error: StorageError | None = None
            try:
                partition.log.flush()
            except StorageError as failure:
                error = failure
            self._outcomes.append((partition, error, perf_counter() - began))
            try:
                self._loop.call_soon_threadsafe(self._settle_all)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _settle_all(self) -> None:
        while self._outcomes:
            self._settle(*self._outcomes.popleft())

    def _settle(self, partition: Partition, error: StorageError | None, seconds: float) -> None:
        partition.flush_requested = False
        self._observe_seconds(seconds)
        if partition.is_retired:
            return
        if error is not None:
            partition.fail(error)
            return
        partition.on_flushed()
        log = partition.log
        if log.end_offset > log.flushed_offset and log.failure is None:
            self.request(partition)
