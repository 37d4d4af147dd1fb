"""Worker threads for questions to the store: so many at once, so many waiting, no longer than so.

A question that took too long is answered 504, but its thread is busy until the store lets go of
it, and counts until then: a store that hangs fills the pool, and further questions are refused.
One that still waits when its time is up is never begun.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from nexus.gateway.errors import TooSlow
from nexus.web.problems import Overloaded

T = TypeVar("T")


class Pool:
    """A bounded number of threads with a bounded queue; a process can end while they hang."""

    def __init__(self, workers: int, waiting: int, timeout_s: float, name: str = "store") -> None:
        self._workers = workers
        self._room = workers + waiting
        self._timeout_s = timeout_s
        self._inside = 0
        self._lock = threading.Lock()
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        for number in range(workers):
            threading.Thread(target=self._serve, name=f"{name}-{number}", daemon=True).start()

    @property
    def running(self) -> int:
        """Questions that a thread works on."""
        return min(self._inside, self._workers)

    @property
    def waiting(self) -> int:
        """Questions that wait for a thread."""
        return max(self._inside - self._workers, 0)

    async def call(self, work: Callable[[], T], timeout_s: float | None = None) -> T:
        """Do work in a thread; Overloaded and TooSlow are raised here."""
        with self._lock:
            if self._inside >= self._room:
                raise Overloaded(f"{self._room} requests are in work or wait already")
            self._inside += 1
        future: Future[T] = Future()
        future.add_done_callback(lambda _: self._leave())
        self._work.put((future, work))
        limit = self._timeout_s if timeout_s is None else timeout_s
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), limit)
        except TimeoutError:
            raise TooSlow(f"there was no answer within {limit:g} s; ask for less") from None

    def close(self) -> None:
        """Take no more work; what runs is not waited for."""
        for _ in range(self._workers):
            self._work.put(None)

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            future, work = item
            if future.set_running_or_notify_cancel():
                _done(future, work)

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1


def _done(future: Future[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits
        future.set_exception(error)
    else:
        future.set_result(result)
