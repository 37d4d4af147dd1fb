"""The engine: source to queue, checkpoints that are never ahead, stops and restarts."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nexus.queue.partitioners import partitioner_named
from nexus.queue.port import Message
from nexus.streamer.checkpoint import StateDirectory
from nexus.streamer.engine import Engine, EngineOptions
from nexus.streamer.errors import StreamerError
from nexus.streamer.pacing import FlatOut
from nexus.streamer.parcels import Packer, Stamp
from nexus.streamer.passes import PassOptions
from nexus.streamer.report import status_of, summary_of
from nexus.streamer.sources.port import Block, Position, Rejected, Source
from nexus.telemetry.arrow_codec import decode_arrow
from support.queues import ListSource, MemoryQueue, numbered, until


@dataclass
class World:
    path: Path
    queue: MemoryQueue = field(default_factory=MemoryQueue)
    options: PassOptions = field(default_factory=PassOptions)
    spool_bytes: int = 1 << 20
    gather: int = 0

    def engine(self, source: Source) -> Engine:
        packer = Packer(
            "arrow",
            partitioner_named("murmur2"),
            Stamp("c", "test"),
            rows_max=10_000,
            now_us=lambda: time.time_ns() // 1000,
            now_s=asyncio.get_running_loop().time,
        )
        options = EngineOptions(
            self.options,
            FlatOut,
            gather_rows=self.gather,
            spool_bytes=self.spool_bytes,
            partitions=4,
            away_after_s=0.05,
            grace_s=0.5,
        )
        return Engine(source, self.queue, packer, StateDirectory(self.path), options)

    def numbers(self) -> list[int]:
        return numbers_in(self.queue.held)


def numbers_in(messages: list[Message]) -> list[int]:
    tables = [decode_arrow(m.value) for m in messages if not m.dead]
    return [int(v) for t in tables for v in t.column("source_value").to_pylist()]


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await story()

    asyncio.run(bounded())


def test_a_source_that_ends_is_all_in_the_queue(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, gather=25)
        engine = world.engine(ListSource(100))
        await engine.run()
        assert sorted(world.numbers()) == list(range(100))
        assert engine.stats.readings_read == 100
        assert summary_of(engine, endless=False).exit_code == 0

    play(story)


def test_a_second_run_finds_nothing_new(tmp_path: Path) -> None:
    async def story() -> None:
        await World(tmp_path).engine(ListSource(100)).run()
        world = World(tmp_path)
        engine = world.engine(ListSource(100))
        await engine.run()
        assert world.numbers() == []
        summary = summary_of(engine, endless=False)
        assert "nothing new" in summary.lines[0]
        assert summary.exit_code == 0

    play(story)


def test_a_stop_in_the_middle_is_gone_on_from(tmp_path: Path) -> None:
    async def story() -> None:
        source = ListSource(300, pause=asyncio.Event())
        assert source.pause is not None
        source.pause.set()
        world = World(tmp_path)
        engine = world.engine(source)
        running = asyncio.create_task(engine.run())
        await until(lambda: len(world.numbers()) > 60)
        source.pause.clear()
        engine.stop()
        await running
        sent = world.numbers()
        summary = summary_of(engine, endless=False)
        assert summary.exit_code == 1
        assert "stopped before the end" in summary.lines[-1]
        again = World(tmp_path)
        await again.engine(ListSource(300)).run()
        assert sorted(sent + again.numbers()) == list(range(300)), "no gap, nothing twice"

    play(story)


def test_a_stop_while_the_queue_is_away_does_not_wait_and_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, MemoryQueue(away=True))
        engine = world.engine(ListSource(30, live=True, forever=True))
        running = asyncio.create_task(engine.run())
        await until(lambda: engine.outbox.is_away)
        engine.stop()
        await running
        summary = summary_of(engine, endless=True)
        assert summary.exit_code == 1
        assert "30 readings are not acknowledged yet" in summary.lines[-1]
        again = World(tmp_path)
        engine = again.engine(ListSource(0, live=True))
        await engine.run()
        assert sorted(again.numbers()) == list(range(30))
        assert summary_of(engine, endless=True).exit_code == 0

    play(story)


def test_a_file_waits_for_room_and_loses_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, MemoryQueue(away=True), spool_bytes=10_000)
        source = ListSource(600)
        engine = world.engine(source)
        running = asyncio.create_task(engine.run())
        await until(lambda: engine.outbox.is_away)
        await asyncio.sleep(0.2)
        assert source.given < 600, "the source is held back"
        world.queue.come_back()
        await running
        assert sorted(world.numbers()) == list(range(600))
        assert engine.stats.readings_lost == 0

    play(story)


def test_a_live_source_without_room_loses_what_is_counted_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        world = World(tmp_path, MemoryQueue(away=True), spool_bytes=10_000)
        monkeypatch.setattr("nexus.streamer.engine._LIVE_ROWS_WAITING", 100)
        engine = world.engine(ListSource(600, live=True))
        running = asyncio.create_task(engine.run())
        await until(lambda: engine.stats.readings_lost)
        await until(lambda: engine.ended)
        world.queue.come_back()
        await running
        lost = engine.stats.readings_lost
        assert len(world.numbers()) == 600 - lost
        summary = summary_of(engine, endless=True)
        assert summary.exit_code == 1
        assert any(f"{lost:,} LOST" in line for line in summary.lines)

    play(story)


def test_a_checkpoint_is_never_ahead_of_what_is_safe(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, MemoryQueue(away=True), spool_bytes=1)
        engine = world.engine(ListSource(500))
        running = asyncio.create_task(engine.run())
        await until(lambda: engine.outbox.is_away)
        await engine.persist()
        place = engine.state.streams.get("numbers")
        assert place is None or int(str(place.state["next"])) <= 20
        engine.stop()
        await running
        again = World(tmp_path)
        await again.engine(ListSource(500)).run()
        assert sorted(set(again.numbers())) == list(range(500))

    play(story)


def test_a_loop_begins_again_and_restamps(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, options=PassOptions(loop=True, restamp=True))
        engine = world.engine(ListSource(20))
        running = asyncio.create_task(engine.run())
        await until(lambda: engine.stats.passes >= 3)
        engine.stop()
        await running
        assert world.numbers().count(0) >= 3
        tables = [decode_arrow(m.value) for m in world.queue.held]
        stamps = [
            (t, v)
            for table in tables
            for t, v in zip(
                table.column("timestamp").to_pylist(),
                table.column("source_value").to_pylist(),
                strict=True,
            )
        ]
        assert len(set(stamps)) == len(stamps), "no two readings of a GPU share a time"
        assert summary_of(engine, endless=True).exit_code == 0

    play(story)


class _Rows:
    """A source with good rows, bad rows and, if told, an end that is an error."""

    live = False

    def __init__(self, failure: Exception | None = None) -> None:
        self._failure = failure

    def describe(self) -> str:
        return "rows"

    def size_hint(self) -> int | None:
        return None

    async def blocks(self, start: Mapping[str, Position]) -> AsyncIterator[Block]:
        bad = [Rejected("no time", f"x.csv:{n}", b"row") for n in range(3)]
        yield Block(numbered(0, 5), Position("x", {"n": 5}), bad)
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        return


def test_bad_rows_are_counted_by_reason_and_are_no_failure(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        engine = world.engine(_Rows())
        await engine.run()
        assert engine.stats.rejected == {"no time": 3}
        assert sum(m.dead for m in world.queue.held) == 3
        summary = summary_of(engine, endless=False)
        assert summary.exit_code == 0
        assert "3 no time" in summary.lines[1]
        assert status_of(engine)["rejected"] == {"no time": 3}

    play(story)


@pytest.mark.parametrize("failure", [StreamerError("no such form"), PermissionError(13, "denied")])
def test_a_source_that_fails_ends_the_run_with_its_error(
    tmp_path: Path, failure: Exception
) -> None:
    async def story() -> None:
        world = World(tmp_path)
        with pytest.raises(type(failure)):
            await world.engine(_Rows(failure)).run()
        assert sorted(world.numbers()) == list(range(5)), "what came before it is in the queue"

    play(story)
