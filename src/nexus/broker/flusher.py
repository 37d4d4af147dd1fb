"""Group commit: a few threads that fsync, so that all who wait share each one.

A partition is flushed by one thread at a time; what is appended meanwhile shares the next flush.
Different partitions are flushed side by side, which lets the file system merge their commits.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter

from nexus.broker.partition import Partition
from nexus.wire.errors import StorageError

Outcome = tuple[Partition, StorageError | None, float]


class Flusher:
    """Flushes partitions on request and tells them when it is done, on the event loop."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        threads: int,
        observe_seconds: Callable[[float], None],
    ) -> None:
        self._loop = loop
        self._observe_seconds = observe_seconds
        self._requested: list[Partition] = []
        self._queue: SimpleQueue[Partition | None] = SimpleQueue()
        self._outcomes: deque[Outcome] = deque()
        self._threads = [
            threading.Thread(target=self._work, name=f"flush-{n}", daemon=True)
            for n in range(threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let the threads finish what they have and end."""
        running = [thread for thread in self._threads if thread.is_alive()]
        for _ in running:
            self._queue.put(None)
        for thread in running:
            thread.join(timeout=5)

    def request(self, partition: Partition) -> None:
        """Flush the partition soon: after what the event loop has at hand, so that it is shared."""
        if partition.flush_requested:
            return
        partition.flush_requested = True
        if not self._requested:
            self._loop.call_soon(self._submit)
        self._requested.append(partition)

    def _submit(self) -> None:
        for partition in self._requested:
            self._queue.put(partition)
        self._requested.clear()

    def _work(self) -> None:
        while (partition := self._queue.get()) is not None:
            began = perf_counter()
            error: StorageError | None = None
            try:
                partition.log.flush()
            except StorageError as failure:
                error = failure
            self._outcomes.append((partition, error, perf_counter() - began))
            self._wake_loop()

    def _wake_loop(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._complete)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def _complete(self) -> None:
        while self._outcomes:
            partition, error, seconds = self._outcomes.popleft()
            partition.flush_requested = False
            self._observe_seconds(seconds)
            if partition.is_retired:
                continue
            if error is not None:
                partition.fail(error)
                continue
            partition.on_flushed()
            if (
                partition.log.end_offset > partition.log.flushed_offset
                and partition.log.failure is None
            ):
                self.request(partition)
