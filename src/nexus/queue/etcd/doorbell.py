"""The queue's doorbell: a small key that every publishing transaction puts, watched by readers."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Final

from nexus.etcd import Client, Compacted, EtcdError
from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.layout import Layout

_AGAIN_S: Final = 1.0


class Doorbell:
    """Rings when somebody publishes. `works` is False while nobody would hear it: then poll."""

    def __init__(self, etcd: BlockingClient, layout: Layout) -> None:
        self._etcd = etcd
        self._bells = layout.metas("bells")
        self._rung = threading.Event()
        self._attached = False
        self._task: asyncio.Task[None] | None = None

    @property
    def works(self) -> bool:
        return self._attached

    @property
    def rung(self) -> bool:
        """Whether it rang since `clear`."""
        return self._rung.is_set()

    def clear(self) -> None:
        """Before looking for messages: what is published from now on rings again."""
        self._rung.clear()

    def wait(self, timeout_s: float) -> bool:
        """Until it rings; False when it does not in time."""
        return self._rung.wait(timeout_s)

    def start(self) -> None:
        self._task = self._etcd.run(self._start)

    def stop(self) -> None:
        """Safe to call twice."""
        task, self._task = self._task, None
        if task is not None:
            with suppress(EtcdError):
                self._etcd.run(lambda _: _ended(task))

    async def _start(self, client: Client) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._listen(client))

    async def _listen(self, client: Client) -> None:
        while True:
            with suppress(EtcdError):
                await self._watch(client)
            self._attached = False
            self._rung.set()  # nobody knows what was missed: look
            await asyncio.sleep(_AGAIN_S)

    async def _watch(self, client: Client) -> None:
        with suppress(Compacted):  # what was missed is seen by looking
            async with client.watch(self._bells, deletes=False) as watch:
                self._rung.set()
                while True:
                    self._attached = watch.attached
                    batch = await watch.next(_AGAIN_S)
                    if batch is not None and batch.events:
                        self._rung.set()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
