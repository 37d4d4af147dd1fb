"""Parcels on their way: to the queue while it answers, to the spool while it does not.

Order is kept through every change: what the queue has not acknowledged when it goes away is
copied to the spool first, new parcels come behind it, and when the queue is back the spool is
emptied before anything new goes straight to the queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from typing import Final, TypeVar

from nexus.observe.logs import get_logger
from nexus.queue.errors import MessageRefused, QueueFull
from nexus.queue.port import Publisher
from nexus.streamer.errors import SpoolFull
from nexus.streamer.parcels import Parcel
from nexus.streamer.spool import Spool, readings_in
from nexus.streamer.stats import Stats

log = get_logger(__name__)

_WATCH_S: Final = 0.1
_DRAIN_BYTES: Final = 2 << 20
_RETRY_S: Final = 1.0
T = TypeVar("T")


class Mode(Enum):
    """Where parcels go."""

    FLOWING = "flowing"  # to the queue
    AWAY = "away"  # to the spool: the queue does not answer
    DRAINING = "draining"  # the queue is back, the spool goes first


class Outbox:
    """Give it parcels in order with `put`; `on_safe` hears, in the same order, what is safe."""

    def __init__(
        self,
        publisher: Publisher,
        spool: Spool,
        stats: Stats,
        *,
        live: bool,
        away_after_s: float,
        on_safe: Callable[[Parcel], None],
    ) -> None:
        self._publisher, self._spool, self._stats = publisher, spool, stats
        self._live, self._away_after_s, self._on_safe = live, away_after_s, on_safe
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "outbox")
        self._turn = asyncio.Lock()  # one parcel after the other
        self._gate = asyncio.Lock()  # publishing, storing and changing the mode exclude each other
        self._changes = 0
        self._unsafe: deque[Parcel] = deque()  # in order, neither acknowledged nor spooled
        self._sent: deque[Parcel] = deque()  # in order, with the publisher
        self._stored_readings = 0
        self._answered_at = self._loop.time()
        self._drained_to = spool.head
        self._stats.spool_bytes = spool.size
        self.mode = Mode.DRAINING if spool.size else Mode.FLOWING
        self._waiters: set[asyncio.Future[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._drain())]

    async def put(self, parcel: Parcel) -> None:
        """Returns when the parcel is with the queue's client or in the spool."""
        async with self._turn:
            self._unsafe.append(parcel)
            seen = self._changes
            while not await self._taken(parcel):
                await self._change(seen)
                seen = self._changes

    async def wait_safe(self) -> None:
        """Until everything that was put is acknowledged or in the spool."""
        while self._unsafe:
            await self._change(self._changes)

    async def wait_for(self, parcels: Sequence[Parcel]) -> None:
        """Until these are acknowledged or in the spool."""
        while not all(parcel.safe for parcel in parcels):
            await self._change(self._changes)

    async def wait_acknowledged(self) -> None:
        """Until the queue holds everything, what the spool held included."""
        while self._unsafe or self._sent or self._spool.size:
            await self._change(self._changes)

    @property
    def unacknowledged(self) -> int:
        """Readings of this run that the queue has not acknowledged."""
        return sum([p.readings for p in self._unsafe]) + self._stored_readings

    @property
    def is_empty(self) -> bool:
        """Whether the queue holds everything."""
        return not (self._unsafe or self._spool.size)

    @property
    def is_away(self) -> bool:
        return self.mode is Mode.AWAY

    def lag_s(self) -> float:
        """How long the oldest reading in memory has been waiting for its acknowledgement."""
        waiting = [p.made_at for p in (*self._sent, *self._unsafe) if not p.settled]
        return max(0.0, self._loop.time() - min(waiting)) if waiting else 0.0

    async def stop(self) -> None:
        """What a live source cannot give again goes to the spool, for the next start to send."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._live:
            await self._store([p for p in self._unsafe if not p.safe])
        self._thread.shutdown()

    async def _taken(self, parcel: Parcel) -> bool:
        async with self._gate:
            if self.mode is Mode.FLOWING:
                return await self._publish(parcel)
            if parcel.safe:
                return True
            if self.mode is Mode.DRAINING and not self._live:
                return False
            return self._spool.has_room(parcel.size) and await self._store([parcel])

    async def _publish(self, parcel: Parcel) -> bool:
        settled = partial(self._from_publisher, parcel)
        if not self._sent:
            self._answered_at = self._loop.time()
        self._sent.append(parcel)
        try:
            await self._threaded(partial(self._publisher.publish, parcel.messages, settled))
        except QueueFull:
            self._sent.remove(parcel)
            return False
        return True

    async def _store(self, parcels: list[Parcel]) -> bool:
        """Write parcels to the spool in order; only then may a checkpoint pass over them."""
        try:
            for parcel in parcels:
                await self._threaded(partial(self._append, parcel))
        except SpoolFull as error:
            log.error("the spool cannot be written", reason=str(error))
            self._loop.call_later(_RETRY_S, self._signal)
            return False
        finally:
            stored = sum([p.readings for p in parcels if p.spooled_to is not None])
            self._stored_readings += stored
            self._stats.readings_spooled += stored
            self._stats.spool_bytes = self._spool.size
            self._advance()
        return True

    def _append(self, parcel: Parcel) -> None:
        parcel.spooled_to = self._spool.append(parcel.messages)

    def _from_publisher(self, parcel: Parcel, refused: MessageRefused | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settled, parcel, refused)
        except RuntimeError:
            return  # the loop is closed: nobody counts any more

    def _settled(self, parcel: Parcel, refused: MessageRefused | None) -> None:
        parcel.settled = True
        self._answered_at = self._loop.time()
        self._count(parcel, refused)
        while self._sent and self._sent[0].settled:
            first = self._sent.popleft()
            if first.spooled_to is not None:
                self._stored_readings = max(0, self._stored_readings - first.readings)
                self._spool.release(first.spooled_to)
                self._stats.spool_bytes = self._spool.size
        self._advance()
        if self.mode is Mode.AWAY:
            self._enter(Mode.DRAINING)

    def _count(self, parcel: Parcel, refused: MessageRefused | None) -> None:
        if refused is None:
            self._stats.acknowledged(parcel.readings, len(parcel.messages), parcel.size)
            return
        self._stats.readings_refused += parcel.readings
        self._stats.last_refusal = str(refused)
        log.error("the queue refused readings", readings=parcel.readings, reason=str(refused))

    def _advance(self) -> None:
        """Tell what is safe, in order and without gaps."""
        while self._unsafe and self._unsafe[0].safe:
            self._on_safe(self._unsafe.popleft())
        self._signal()

    async def _watch(self) -> None:
        """Notice that the queue has stopped answering, also while nothing new comes."""
        while True:
            await asyncio.sleep(_WATCH_S)
            if self._is_silent() and self.mode is not Mode.AWAY:
                async with self._gate:
                    if self._is_silent():
                        await self._go_away()

    def _is_silent(self) -> bool:
        return bool(self._sent) and self._loop.time() - self._answered_at > self._away_after_s

    async def _go_away(self) -> None:
        was, waiting = self.mode, [p for p in self._sent if not p.safe]
        self._enter(Mode.AWAY)
        if was is Mode.FLOWING:
            # They stay with the publisher too, which sends them itself when the queue is back.
            await self._store(waiting)
            self._drained_to = self._spool.tail

    async def _drain(self) -> None:
        while True:
            seen = self._changes
            if self.mode is not Mode.DRAINING or not await self._drain_some():
                await self._change(seen)

    async def _drain_some(self) -> bool:
        async with self._gate:
            if self._drained_to < self._spool.tail:
                return await self._send_spooled()
            if self._sent or self._spool.size:
                return False
            self._spool.clear()
            self._enter(Mode.FLOWING)
            return True

    async def _send_spooled(self) -> bool:
        read = partial(self._spool.read, self._drained_to, _DRAIN_BYTES)
        messages, end = await self._threaded(read)
        size = sum([len(message.value) for message in messages])
        now = self._loop.time()
        parcel = Parcel(messages, readings_in(messages), size, made_at=now, spooled_to=end)
        if not await self._publish(parcel):
            return False
        self._drained_to = end
        return True

    def _enter(self, mode: Mode) -> None:
        if mode is Mode.AWAY:
            log.warning("the queue does not answer; readings go to the spool")
        elif mode is Mode.DRAINING:
            log.info("the queue is back; the spool goes first", spool_bytes=self._spool.size)
        else:
            log.info("the spool is empty again")
        self.mode = mode
        self._signal()

    def _signal(self) -> None:
        self._changes += 1
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _change(self, seen: int) -> None:
        """Wait for anything that may let a waiter go on, unless it has happened since `seen`."""
        if self._changes == seen:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.add(waiter)
            await waiter

    async def _threaded(self, work: Callable[[], T]) -> T:
        """Done in the thread, also when nobody waits for it any more: its traces must be whole."""
        done = self._loop.run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait({done})
            raise
