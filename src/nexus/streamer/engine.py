"""Runs a source into a queue: read, pace, pack, send, and remember what is safe.

Reading the next block, packing the last one and sending the one before go on at the same time;
each step holds a bounded amount. What a live source gives while there is no room is counted lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from nexus.errors import NexusError
from nexus.observe.logs import get_logger
from nexus.queue.errors import QueueAway
from nexus.queue.port import Publisher
from nexus.streamer.checkpoint import StateDirectory
from nexus.streamer.outbox import Outbox
from nexus.streamer.pacing import Pacer
from nexus.streamer.parcels import TOO_LARGE, Packer, Parcel, Piece
from nexus.streamer.passes import Hooks, Passes, PassOptions
from nexus.streamer.picture import Picture
from nexus.streamer.sources.port import Source
from nexus.streamer.spool import Spool
from nexus.streamer.stats import Stats

log = get_logger(__name__)

CHECKPOINT_S: Final = 0.2
_GATHER_S: Final = 0.25
_LOST_LOG_S: Final = 5.0
_PIECES_WAITING: Final = 2
_LIVE_ROWS_WAITING: Final = 262_144


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine works, beside its source and its queue."""

    passes: PassOptions
    make_pacer: Callable[[], Pacer]
    gather_rows: int  # pieces are packed together up to so many readings; 0 packs each alone
    spool_bytes: int
    partitions: int  # until the queue tells
    away_after_s: float = 3.0
    grace_s: float = 5.0  # how long a stop waits for acknowledgements


class Engine:
    """One source to one queue. `run` returns when the source ends or after `stop`."""

    def __init__(
        self,
        source: Source,
        publisher: Publisher,
        packer: Packer,
        directory: StateDirectory,
        options: EngineOptions,
    ) -> None:
        self.source, self.publisher, self.options = source, publisher, options
        self._packer, self._directory = packer, directory
        self.stats = Stats(time.monotonic)
        self.picture = Picture()
        self.state = directory.open({"source": source.describe()})
        self.spool = Spool(directory.path / "spool", options.spool_bytes)
        self.spool.open(self.state.spool_head)
        self.outbox = Outbox(
            publisher,
            self.spool,
            self.stats,
            live=source.live,
            away_after_s=options.away_after_s,
            on_safe=self._safe,
        )
        self.resumed = bool(self.state.streams or self.spool.size)
        self.ended = False  # the source came to its end
        self.failure: NexusError | OSError | None = None
        # A live source does not wait, so what it gives is bounded by its readings instead.
        self._pieces: asyncio.Queue[Piece | None] = asyncio.Queue(
            0 if source.live else _PIECES_WAITING
        )
        self._rows_waiting = 0
        self._parcels: asyncio.Queue[Parcel | None] = asyncio.Queue(1)
        self._worker = ThreadPoolExecutor(1, "packer")
        # One thread, so that a write that nobody waits for any more still ends before the next.
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._dirty = False
        self._stopping = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._lost_said_at = 0.0
        self._closed = False

    @property
    def path(self) -> Path:
        return self._directory.path

    async def run(self) -> None:
        """Until everything is acknowledged, or until `stop` and its grace."""
        self.outbox.start()
        self._reader = asyncio.create_task(self._read())
        if self._stopping.is_set():
            self._reader.cancel()
        steps = [asyncio.create_task(self._pack()), asyncio.create_task(self._send())]
        keeper = asyncio.create_task(self._keep_checkpoints())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await self._until_done(steps, stopping)
        finally:
            for task in (self._reader, *steps, keeper, stopping):
                task.cancel()
            await asyncio.gather(self._reader, *steps, keeper, stopping, return_exceptions=True)
            await self.close()
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Read no more; what is on its way has a few seconds to be acknowledged."""
        self._stopping.set()
        if self._reader is not None:
            self._reader.cancel()

    async def close(self) -> None:
        """Keep what can be kept and let go of the rest; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        await self.source.close()
        await self.outbox.stop()
        await self.persist()
        await asyncio.to_thread(self.publisher.close)
        self._worker.shutdown()
        self._writer.shutdown()
        self._directory.close()

    async def persist(self) -> None:
        """Write the checkpoint now."""
        self._dirty = False
        self.state.spool_head = self.spool.head
        write = partial(self._directory.write, self._directory.encode(self.state))
        await asyncio.get_running_loop().run_in_executor(self._writer, write)

    async def pack(self, pieces: list[Piece]) -> Parcel:
        """Encode pieces in the worker thread; also for what comes by upload."""
        work = partial(self._packer.pack, pieces, self._partitions())
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    async def _until_done(
        self, steps: list[asyncio.Task[None]], stopping: asyncio.Task[bool]
    ) -> None:
        everything = asyncio.create_task(self._sent_and_acknowledged(steps))
        try:
            await asyncio.wait({everything, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not everything.done() and not self.outbox.is_away:
                await asyncio.wait({everything}, timeout=self.options.grace_s)
            if everything.done():
                everything.result()
        finally:
            everything.cancel()
            await asyncio.gather(everything, return_exceptions=True)

    async def _sent_and_acknowledged(self, steps: list[asyncio.Task[None]]) -> None:
        await asyncio.gather(*steps)
        await self.outbox.wait_acknowledged()

    async def _read(self) -> None:
        passes = Passes(
            self.source,
            self.state,
            self.options.passes,
            Hooks(
                self.options.make_pacer,
                self.persist,
                self._pieces_safe,
                lambda: time.time_ns() // 1000,
                time.monotonic,
            ),
        )
        try:
            async for piece in passes.pieces():
                await self._offer(piece)
            self.ended = True
        except (NexusError, OSError) as error:
            self.failure = error
            self._stopping.set()
        finally:
            await self._pieces.put(None)

    async def _pieces_safe(self) -> None:
        """Everything that was read is safe: a pass may end."""
        await self._pieces.join()
        await self._parcels.join()
        await self.outbox.wait_safe()
        self.stats.passes += 1

    async def _offer(self, piece: Piece) -> None:
        self._count_read(piece)
        rows = self._rows_waiting + piece.table.num_rows
        if self.source.live and self._rows_waiting and rows > _LIVE_ROWS_WAITING:
            self._lose(piece)
            return
        self._rows_waiting = rows
        await self._pieces.put(piece)

    def _count_read(self, piece: Piece) -> None:
        self.stats.blocks += 1
        self.stats.readings_read += piece.table.num_rows
        self.picture.saw(piece.table)
        for row in piece.rejected:
            self.stats.reject(row.reason)

    def _lose(self, piece: Piece) -> None:
        self.stats.readings_lost += piece.table.num_rows
        now = time.monotonic()
        if now - self._lost_said_at > _LOST_LOG_S:
            self._lost_said_at = now
            log.error("the spool is full: readings are lost", lost=self.stats.readings_lost)

    async def _pack(self) -> None:
        await self._first_answer()
        at_end = False
        while not at_end:
            pieces, at_end = await self._gather()
            if pieces:
                parcel = await self.pack(pieces)
                if parcel.oversized:
                    self.stats.rejected[TOO_LARGE] += parcel.oversized
                await self._parcels.put(parcel)
                for piece in pieces:
                    self._rows_waiting -= piece.table.num_rows
                    self._pieces.task_done()
        await self._parcels.put(None)

    async def _gather(self) -> tuple[list[Piece], bool]:
        """The next pieces to pack together, and whether the source has ended."""
        piece = await self._pieces.get()
        if piece is None:
            return [], True
        pieces, rows = [piece], piece.table.num_rows
        try:
            async with asyncio.timeout(_GATHER_S):
                while rows < self.options.gather_rows:
                    piece = await self._pieces.get()
                    if piece is None:
                        return pieces, True
                    pieces.append(piece)
                    rows += piece.table.num_rows
        except TimeoutError:
            pass
        return pieces, False

    async def _send(self) -> None:
        while (parcel := await self._parcels.get()) is not None:
            await self.outbox.put(parcel)
            self._parcels.task_done()

    def _safe(self, parcel: Parcel) -> None:
        for progress in parcel.progress:
            self.state.advance(progress)
        self.state.last_stamp_us = max(self.state.last_stamp_us, parcel.last_stamp_us)
        self._dirty = True

    async def _keep_checkpoints(self) -> None:
        """A checkpoint a few times a second, and never more than a twentieth of the time."""
        while True:
            began = time.monotonic()
            if self._dirty or self.spool.head != self.state.spool_head:
                await self.persist()
            await asyncio.sleep(max(CHECKPOINT_S, 20 * (time.monotonic() - began)))

    async def _first_answer(self) -> None:
        """Give the queue a moment to say how many partitions there are."""
        deadline = time.monotonic() + self.options.away_after_s
        while time.monotonic() < deadline:
            try:
                self.publisher.partitions()
                return
            except QueueAway:
                await asyncio.sleep(0.02)

    def _partitions(self) -> int:
        try:
            self.state.partitions = self.publisher.partitions()
        except QueueAway:
            return self.state.partitions or self.options.partitions
        return self.state.partitions
