"""A lease as its holder sees it: how long it can still be sure of it.

The deadline is the moment at which the last successful renewal was *sent*, plus the time that the
server gave; so it comes before the server's own. No answer of the server is needed to know that
a lease may be lost. The clock goes on while a machine sleeps.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from nexus.etcd.errors import LeaseLost

T = TypeVar("T")


def steady_clock() -> float:
    """Seconds that never go back, and go on during a suspend where the system can tell."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """One granted lease. Once lost it stays lost, whatever the server thinks.

    `margin_s` makes the holder step down that much before the deadline.
    """

    def __init__(
        self,
        lease_id: int,
        ttl_s: float,
        sent_at: float,
        *,
        margin_s: float = 0.0,
        clock: Callable[[], float] = steady_clock,
    ) -> None:
        self.id = lease_id
        self.ttl_s = ttl_s
        self.margin_s = margin_s
        self._clock = clock
        self._deadline = sent_at + ttl_s - margin_s
        self._lost = False
        self._lock = threading.Lock()
        self._waiters: set[Callable[[], None]] = set()

    def remaining_s(self) -> float:
        """For how long the lease is certainly held; 0 when it may be lost."""
        return 0.0 if self.lost() else max(0.0, self._deadline - self._clock())

    def lost(self) -> bool:
        """Whether another may hold what this lease stood for. Costs a look at the clock."""
        if not self._lost and self._clock() >= self._deadline:
            self.drop()
        return self._lost

    def check(self) -> None:
        """LeaseLost if it may be lost: for the last line before something that needs it."""
        if self.lost():
            raise LeaseLost(f"lease {self.id:x} may be lost: nobody renewed it in time")

    def renewed(self, sent_at: float, ttl_s: float) -> bool:
        """Move the deadline; False if the lease was lost before the answer came."""
        with self._lock:
            if not self._lost and self._clock() < self._deadline:
                self.ttl_s = ttl_s
                self._deadline = sent_at + ttl_s - self.margin_s
                return True
        self.drop()
        return False

    def drop(self) -> None:
        """Count it as lost from now on, and tell those who wait for that."""
        with self._lock:
            self._lost = True
            waiters, self._waiters = self._waiters, set()
        for wake in waiters:
            wake()

    async def wait_lost(self) -> None:
        """Return when the lease may be lost."""
        loop = asyncio.get_running_loop()
        dropped = asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(dropped.set)

        with self._lock:
            self._waiters.add(wake)
        try:
            while not self.lost():
                try:
                    async with asyncio.timeout(self.remaining_s()):
                        await dropped.wait()
                except TimeoutError:
                    continue
        finally:
            with self._lock:
                self._waiters.discard(wake)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work while the lease is held; cancel it, and raise LeaseLost, when it is not."""
        task = asyncio.ensure_future(work)
        losing = asyncio.ensure_future(self.wait_lost())
        try:
            await asyncio.wait({task, losing}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise LeaseLost(f"lease {self.id:x} may be lost: the work under it was stopped")
        finally:
            await _ended(task, losing)


async def _ended(*tasks: Awaitable[Any]) -> None:
    for task in tasks:
        assert isinstance(task, asyncio.Future)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
