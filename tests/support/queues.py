"""A queue in memory that goes away when told to, and a source made of numbers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from nexus.queue.errors import MessageRefused, QueueAway, QueueFull
from nexus.queue.port import Message, OnSettled
from nexus.streamer.sources.port import Block, Position
from nexus.telemetry.reading import TIMESTAMP, source_table


@dataclass
class MemoryQueue:
    """A publisher whose queue is a list; while it is away, what is published waits here."""

    away: bool = False
    room: int = 1 << 30
    count: int = 4
    refuse: bool = False
    held: list[Message] = field(default_factory=list)
    waiting: list[tuple[Sequence[Message], OnSettled]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def partitions(self) -> int:
        if self.away:
            raise QueueAway("away")
        return self.count

    def publish(self, messages: Sequence[Message], on_settled: OnSettled) -> None:
        with self.lock:
            size = sum(len(m.value) for batch, _ in self.waiting for m in batch)
            if self.waiting and size + sum(len(m.value) for m in messages) > self.room:
                raise QueueFull("full")
            self.waiting.append((messages, on_settled))
            if not self.away:
                self.settle()

    def settle(self) -> None:
        waiting, self.waiting = self.waiting, []
        for messages, on_settled in waiting:
            if not self.refuse:
                self.held += messages
            on_settled(MessageRefused("too large") if self.refuse else None)

    def come_back(self) -> None:
        with self.lock:
            self.away = False
            self.settle()

    def flush(self, timeout_s: float) -> int:
        return len(self.waiting)

    def close(self) -> None:
        self.waiting = []


def numbered(first: int, count: int, gpus: int = 3, at_us: int = 1_700_000_000_000_000) -> pa.Table:
    """Readings whose values are their numbers; each GPU's rise, one a millisecond."""
    numbers = range(first, first + count)
    return source_table(
        {
            "timestamp": pa.array([at_us + n * 1000 for n in numbers], TIMESTAMP),
            "source_metric": "DCGM_FI_DEV_GPU_UTIL",
            "source_value": pa.array([float(n) for n in numbers], pa.float64()),
            "uuid": pa.array([f"GPU-{n % gpus}" for n in numbers], pa.string()),
            "hostname": "h1",
            "gpu": pa.array([str(n % gpus) for n in numbers], pa.string()),
        }
    )


@dataclass
class ListSource:
    """Numbered readings in blocks; a position is the number to go on with."""

    total: int
    block_rows: int = 10
    live: bool = False
    forever: bool = False
    asked: list[Mapping[str, Position]] = field(default_factory=list)
    given: int = 0
    pause: asyncio.Event | None = None

    def describe(self) -> str:
        return f"{self.total} numbers"

    def size_hint(self) -> int | None:
        return None

    async def blocks(self, start: Mapping[str, Position]) -> AsyncIterator[Block]:
        self.asked.append(dict(start))
        at = int(str(start["numbers"].state["next"])) if "numbers" in start else 0
        while at < self.total:
            if self.pause is not None:
                await self.pause.wait()
            rows = min(self.block_rows, self.total - at)
            self.given += rows
            yield Block(numbered(at, rows), Position("numbers", {"next": at + rows}))
            at += rows
            await asyncio.sleep(0)
        if self.forever:
            await asyncio.Event().wait()

    async def close(self) -> None:
        return


async def until(condition: Callable[[], object]) -> None:
    """Returns once it is true; fails after 10 s."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - any condition, not only our own events
            await asyncio.sleep(0.005)
