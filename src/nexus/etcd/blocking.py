"""The client for code without an event loop, such as Spark's executors: a loop in a thread.

Open one in each process, and none in a process that forks later: see `forks`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from nexus.etcd.client import Client
from nexus.etcd.compare import Compare
from nexus.etcd.config import EtcdConfig
from nexus.etcd.cursor import WatchBatch
from nexus.etcd.errors import Closed
from nexus.etcd.keys import Keys
from nexus.etcd.limits import Limits
from nexus.etcd.operations import Get, Operation
from nexus.etcd.results import DeleteResult, GetResult, KeyValue, PutResult, TxnResult
from nexus.etcd.watch import Watch

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name="etcd", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result; an interrupted caller cancels the work."""
        if self._process != os.getpid() or self._loop.is_closed():
            work.close()
            raise Closed("etcd: the client is closed, or was opened before a fork")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        if self._process == os.getpid() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class BlockingWatch:
    """A watch that is polled; close it, or use it as a block."""

    def __init__(self, thread: LoopThread, watch: Watch) -> None:
        self._thread = thread
        self._watch = watch

    def next(self, timeout_s: float | None = None) -> WatchBatch | None:
        """The next batch; None when there is none in time."""
        return self._thread.run(self._watch.next(timeout_s))

    def __enter__(self) -> Self:
        self._thread.run(self._watch.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._thread.run(self._watch.close())


class BlockingClient:
    """The calls of `Client`, each waiting for its answer; safe to share between threads."""

    def __init__(self, config: EtcdConfig) -> None:
        self._thread = LoopThread()
        try:
            self._client = self._thread.run(_opened(config))
        except BaseException:
            self._thread.close()
            raise

    def run(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Anything the asyncio client can do: `etcd.run(lambda client: lead(client, …))`."""
        return self._thread.run(work(self._client))

    def get(self, key: bytes, *, revision: int = 0) -> KeyValue | None:
        return self._thread.run(self._client.get(key, revision=revision))

    def range(self, get: Get, *, timeout_s: float | None = None) -> GetResult:
        return self._thread.run(self._client.range(get, timeout_s=timeout_s))

    def scan(self, keys: Keys | Get) -> Iterator[GetResult]:
        """A range of any size as pages, all of one revision."""
        pages = self._client.scan(keys)
        try:
            while (page := self._thread.run(_next(pages))) is not None:
                yield page
        finally:
            self._thread.run(pages.aclose())

    def put(
        self, key: bytes, value: bytes, *, lease: int = 0, timeout_s: float | None = None
    ) -> PutResult:
        return self._thread.run(self._client.put(key, value, lease=lease, timeout_s=timeout_s))

    def delete(self, keys: bytes | Keys, *, timeout_s: float | None = None) -> DeleteResult:
        return self._thread.run(self._client.delete(keys, timeout_s=timeout_s))

    def txn(
        self,
        *,
        when: Iterable[Compare] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        timeout_s: float | None = None,
    ) -> TxnResult:
        work = self._client.txn(when=when, then=then, otherwise=otherwise, timeout_s=timeout_s)
        return self._thread.run(work)

    def watch(self, keys: bytes | Keys, *, start_revision: int = 0) -> BlockingWatch:
        return BlockingWatch(self._thread, self._client.watch(keys, start_revision=start_revision))

    def limits(self) -> Limits:
        return self._thread.run(self._client.limits())

    def close(self) -> None:
        """Safe to call twice, and after a fork."""
        try:
            self._thread.run(self._client.close())
        except Closed:
            return
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


async def _opened(config: EtcdConfig) -> Client:
    return Client(config)


async def _next(pages: AsyncGenerator[GetResult, None]) -> GetResult | None:
    return await anext(pages, None)
