"""Flushes come in rounds, through the kernel or a thread, and nobody is forgotten."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from nexus.broker.flusher import Flusher
from nexus.broker.partition import Partition
from nexus.log import LogConfig, PartitionLog
from nexus.log.kernel_sync import KernelSync, Told
from nexus.wire.batch import check_from_client
from nexus.wire.errors import ProtocolError
from nexus.wire.records import Record, encode_batch
from support.needs import missing


class HeldKernel:
    """A kernel whose syncs end when the test says so; it takes `room` of them at a time."""

    def __init__(self, room: int = 100) -> None:
        self.room = room
        self.rounds: list[list[Told]] = []

    @property
    def fileno(self) -> int:
        return 0

    def submit(self, wanted: Sequence[tuple[int, Told]]) -> int:
        taken = [told for _, told in wanted[: self.room]]
        if taken:
            self.rounds.append(taken)
        return len(taken)

    def reap(self) -> None:
        raise NotImplementedError


class Stage:
    """A flusher and partitions in a temporary directory."""

    def __init__(self, directory: Path, kernel: HeldKernel | KernelSync | None) -> None:
        self.directory = directory
        self.failed: list[Partition] = []
        loop = asyncio.get_running_loop()
        self.flusher = Flusher(loop, 1, lambda _: None, cast("KernelSync | None", kernel))
        self.outcomes: list[ProtocolError | None] = []

    def partition(self, index: int) -> Partition:
        log = PartitionLog.open(
            self.directory / f"partition-{index}",
            LogConfig(),
            recovery_point=0,
            clean=False,
            now_ms=now_ms,
        )
        log.flush()
        return Partition("t", index, log, self.flusher.request, self.failed.append)

    def append(self, partition: Partition) -> None:
        batch = memoryview(encode_batch([Record(0, now_ms(), None, b"x")]))
        appended = partition.append(batch, check_from_client(batch))
        assert partition.when_safe(appended.last_offset + 1, self.outcomes.append)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.001)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def real_kernel() -> KernelSync:
    kernel = KernelSync.open()
    if kernel is None:
        missing("this system has no asynchronous sync; flushes go by threads")
    return kernel


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_what_comes_during_a_round_shares_the_next_one(tmp_path: Path) -> None:
    async def story() -> None:
        kernel = HeldKernel()
        stage = Stage(tmp_path, kernel)
        one, two = stage.partition(0), stage.partition(1)
        # The first batch of a log writes its epoch too: a flush for the thread.
        for partition in (one, two):
            stage.append(partition)
            partition.log.flush()
            partition.on_flushed()
            partition.flush_requested = False
        await asyncio.sleep(0)
        kernel.rounds.clear()
        stage.flusher._syncing = 0

        stage.append(one)
        await stage.until(lambda: len(kernel.rounds) == 1)
        stage.append(one)
        stage.append(two)
        await asyncio.sleep(0.01)
        assert len(kernel.rounds) == 1
        kernel.rounds[0][0](None)
        await stage.until(lambda: len(kernel.rounds) == 2)
        assert len(kernel.rounds[1]) == 2
        for told in kernel.rounds[1]:
            told(None)
        assert stage.outcomes == [None] * 5
        assert one.high_watermark == one.log.end_offset == 3

    run(story())


def test_a_sync_that_fails_acknowledges_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        kernel = HeldKernel()
        stage = Stage(tmp_path, kernel)
        partition = stage.partition(0)
        partition.log.leader_epochs.note(0, 0)
        partition.log.flush()
        stage.append(partition)
        await stage.until(lambda: len(kernel.rounds) == 1)
        kernel.rounds[0][0](OSError(5, "Input/output error"))
        (error,) = stage.outcomes
        assert error is not None
        assert "Input/output error" in str(error)
        assert stage.failed == [partition]
        assert partition.high_watermark == 0
        assert partition.log.failure is not None

    run(story())


@pytest.mark.parametrize("kernel", [None, HeldKernel(room=0)])
def test_a_thread_flushes_what_the_kernel_does_not_take(
    tmp_path: Path, kernel: HeldKernel | None
) -> None:
    async def story() -> None:
        stage = Stage(tmp_path, kernel)
        for thread in stage.flusher._threads:
            thread.start()
        partition = stage.partition(0)
        stage.append(partition)
        await stage.until(lambda: stage.outcomes == [None])
        stage.append(partition)
        await stage.until(lambda: stage.outcomes == [None, None])
        assert partition.log.flushed_offset == 2
        for _ in stage.flusher._threads:
            stage.flusher._queue.put(None)

    run(story())


def test_the_kernel_of_this_machine_syncs(tmp_path: Path) -> None:
    async def story() -> None:
        stage = Stage(tmp_path, real_kernel())
        stage.flusher.start()
        partitions = [stage.partition(index) for index in range(8)]
        for _ in range(3):
            for partition in partitions:
                stage.append(partition)
            await asyncio.sleep(0.002)
        await stage.until(lambda: len(stage.outcomes) == 24)
        assert stage.outcomes == [None] * 24
        assert all(p.log.flushed_offset == 3 for p in partitions)
        stage.flusher.stop()

    run(story())


def test_the_kernel_refuses_what_it_cannot_sync() -> None:
    assert real_kernel().submit([(-1, lambda _: None)]) == 0
