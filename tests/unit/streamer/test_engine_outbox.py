"""The outbox: order is kept whatever the queue does, and nothing is called safe that is not."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from nexus.queue.port import Message
from nexus.streamer.outbox import Mode, Outbox
from nexus.streamer.parcels import Parcel
from nexus.streamer.spool import Spool
from nexus.streamer.stats import Stats
from support.queues import MemoryQueue, until


@dataclass
class World:
    """An outbox between a queue in memory and a spool on disk."""

    path: Path
    queue: MemoryQueue = field(default_factory=MemoryQueue)
    live: bool = False
    bound: int = 1 << 20
    head: int = 0
    safe: list[Parcel] = field(default_factory=list)

    def open(self) -> Outbox:
        self.spool = Spool(self.path, self.bound)
        self.spool.open(self.head)
        self.stats = Stats(asyncio.get_running_loop().time)
        self.outbox = Outbox(
            self.queue,
            self.spool,
            self.stats,
            live=self.live,
            away_after_s=0.05,
            on_safe=self.safe.append,
        )
        self.outbox.start()
        return self.outbox

    @property
    def arrived(self) -> list[int]:
        return [int(m.value) for m in self.queue.held]


def parcel(n: int) -> Parcel:
    messages = [Message(str(n).encode(), headers=(("count", b"10"),))]
    return Parcel(messages, 10, 1, made_at=asyncio.get_running_loop().time())


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await story()

    asyncio.run(bounded())


def test_while_the_queue_answers_parcels_go_straight_to_it(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        outbox = world.open()
        sent = [parcel(n) for n in range(5)]
        for each in sent:
            await outbox.put(each)
        await outbox.wait_acknowledged()
        assert world.arrived == [0, 1, 2, 3, 4]
        assert world.safe == sent
        assert world.stats.readings_acknowledged == 50
        assert outbox.unacknowledged == 0
        await outbox.stop()

    play(story)


def test_while_the_queue_is_away_parcels_go_to_the_spool_and_come_out_in_order(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        world = World(tmp_path, live=True)
        outbox = world.open()
        await outbox.put(parcel(0))
        world.queue.away = True
        await outbox.put(parcel(1))
        await until(lambda: outbox.mode is Mode.AWAY)
        for n in range(2, 6):
            await outbox.put(parcel(n))
        assert len(world.safe) == 6, "what is in the spool is safe"
        assert outbox.unacknowledged == 50
        assert world.stats.spool_bytes > 0
        world.queue.come_back()
        await outbox.wait_acknowledged()
        assert world.arrived == [0, 1, 2, 3, 4, 5]
        await until(lambda: outbox.mode is Mode.FLOWING)
        await outbox.put(parcel(6))
        await outbox.wait_acknowledged()
        assert world.arrived == [0, 1, 2, 3, 4, 5, 6]
        assert (outbox.unacknowledged, world.stats.spool_bytes) == (0, 0)
        await outbox.stop()

    play(story)


def test_new_parcels_of_a_live_source_queue_up_behind_a_spool_that_drains(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, live=True)
        outbox = world.open()
        for round_ in range(3):
            world.queue.away = True
            for n in range(4):
                await outbox.put(parcel(round_ * 10 + n))
                await until(lambda: outbox.mode is Mode.AWAY)
            world.queue.come_back()
            for n in range(4, 10):
                await outbox.put(parcel(round_ * 10 + n))
            await outbox.wait_acknowledged()
        assert world.arrived == list(range(30))
        await outbox.stop()

    play(story)


def test_a_full_spool_holds_the_source_back_until_there_is_room(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, bound=1)
        outbox = world.open()
        world.queue.away = True
        await outbox.put(parcel(0))
        await until(lambda: outbox.mode is Mode.AWAY)
        waiting = asyncio.create_task(outbox.put(parcel(1)))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        world.queue.come_back()
        await waiting
        await outbox.wait_acknowledged()
        assert world.arrived == [0, 1]
        await outbox.stop()

    play(story)


def test_a_queue_that_is_full_but_answers_is_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, MemoryQueue(room=2))
        outbox = world.open()
        world.queue.away = True
        for n in range(2):
            await outbox.put(parcel(n))
        third = asyncio.create_task(outbox.put(parcel(2)))
        await asyncio.sleep(0)
        world.queue.come_back()
        await third
        await outbox.wait_acknowledged()
        assert world.arrived == [0, 1, 2]
        await outbox.stop()

    play(story)


def test_what_the_last_run_left_in_the_spool_goes_first(tmp_path: Path) -> None:
    async def story() -> None:
        before = World(tmp_path, MemoryQueue(away=True), live=True)
        outbox = before.open()
        for n in range(3):
            await outbox.put(parcel(n))
        await outbox.stop()
        assert len(before.safe) == 3, "a stop puts what is on its way into the spool"
        after = World(tmp_path, live=True, head=before.spool.head)
        outbox = after.open()
        await outbox.put(parcel(3))
        await outbox.wait_acknowledged()
        assert after.arrived == [0, 1, 2, 3]
        await outbox.stop()

    play(story)


def test_safe_means_without_gaps(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        outbox = world.open()
        world.queue.away = True
        first, second = parcel(0), parcel(1)
        await outbox.put(first)
        await outbox.put(second)
        (_, settle_first), (_, settle_second) = world.queue.waiting
        settle_second(None)
        await until(lambda: second.settled)
        assert world.safe == []
        settle_first(None)
        await until(lambda: world.safe == [first, second])
        await outbox.stop()

    play(story)


def test_what_the_queue_refuses_is_counted_and_said(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, MemoryQueue(refuse=True))
        outbox = world.open()
        await outbox.put(parcel(0))
        await outbox.wait_acknowledged()
        assert world.stats.readings_refused == 10
        assert world.stats.last_refusal == "too large"
        assert world.stats.readings_acknowledged == 0
        await outbox.stop()

    play(story)


def test_lag_is_the_age_of_the_oldest_reading_on_its_way(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, MemoryQueue(away=True))
        outbox = world.open()
        assert outbox.lag_s() == 0.0
        old = parcel(0)
        old.made_at -= 9.0
        await outbox.put(old)
        await outbox.put(parcel(1))
        assert 9.0 <= outbox.lag_s() < 12.0
        await outbox.stop()

    play(story)
