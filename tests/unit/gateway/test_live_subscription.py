"""One client: everything while it keeps up, the newest when it does not, and gaps always told."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from nexus.gateway.live.follower import Status
from nexus.gateway.live.kitchen import Kitchen
from nexus.gateway.live.metrics import LiveMetrics
from nexus.gateway.live.position import Position, decode_position
from nexus.gateway.live.replay import Replays
from nexus.gateway.live.ring import Block, Gap, Ring
from nexus.gateway.live.stage import Paces, Stage
from nexus.gateway.live.subscription import Subscription
from nexus.observe.metrics import Registry
from nexus.queue.errors import QueueAway
from nexus.queue.port import Batch, Bounds, Received
from nexus.store.port import Selection
from support.live import Client, Event, live_rows, parsed, received
from support.readings import NOON_US


class ListReader:
    """A queue of one partition in memory; `old` is the first offset of the last minute."""

    def __init__(self, messages: Sequence[Received] = (), *, first: int = 0, old: int = 0) -> None:
        self.messages, self.first, self.old = messages, first, old
        self.is_away = False

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        if self.is_away:
            raise QueueAway("no broker answers")
        return {0: self.old}

    def bounds(self, partitions: Sequence[int] | None = None) -> dict[int, Bounds]:
        return {0: Bounds(self.first, len(self.messages))}

    def read(self, partition: int, start: int, end: int) -> Iterator[Batch]:
        for one in self.messages[start:end]:
            yield Batch([one])

    def close(self) -> None: ...
    def partitions(self) -> Sequence[int]:
        return [0]

    def sample(self, partition: int, offset: int) -> Received | None:
        raise NotImplementedError

    def samples(self, offsets: Mapping[int, int]) -> dict[int, Received]:
        raise NotImplementedError

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        raise NotImplementedError


class Scene:
    """A stage, its clients, and a hand that moves it."""

    def __init__(self, reader: ListReader, paces: Paces) -> None:
        self.metrics = LiveMetrics(Registry())
        replays = Replays(reader, self.metrics)
        self.stage = Stage("t", Kitchen(), replays, self.metrics, paces)
        self.clients: list[Subscription] = []

    def open(self, offset: int = 0, *, place: int = 0, **bounds: Any) -> None:
        self.stage.ring = Ring(Position(1, {0: offset}), place, **bounds)
        self.status("ok")

    def status(self, queue: Any, detail: str = "") -> None:
        self.stage.status = Status(queue, 1, detail)
        self.wake()

    def come(self, *rows: Mapping[str, object], gap: Gap | None = None, age_s: float = 0.0) -> None:
        self.come_as(live_rows(*rows), gap, age_s)

    def come_as(self, table: pa.Table, gap: Gap | None = None, age_s: float = 0.0) -> None:
        ring = self.stage.ring
        assert ring is not None
        end = Position(ring.last + 100, {0: ring.end.offsets[0] + 1})
        ring.append(Block(table, end, time.monotonic() - age_s, gap))
        self.wake()

    def wake(self) -> None:
        for client in self.clients:
            client.wake()

    def subscribe(
        self, which: Selection | None = None, wanted: Position | None = None, **options: Any
    ) -> Subscription:
        made = Subscription(self.stage, which or Selection(), wanted, **options)
        self.clients.append(made)
        return made


@asynccontextmanager
async def scene(reader: ListReader | None = None, **paces: float) -> AsyncIterator[Scene]:
    made = Scene(reader or ListReader(), Paces(**paces))
    try:
        yield made
    finally:
        made.stage.is_stopped = True
        made.wake()
        for client in made.clients:
            await client.aclose()
        await made.stage.replays.close()
        await made.stage.kitchen.close()


def reading(uuid: str, second: int = 0, value: float = 1.0) -> dict[str, object]:
    return {"uuid": uuid, "timestamp": NOON_US + second * 1_000_000, "source_value": value}


def told(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await story()

    asyncio.run(bounded())


async def taken(events: Subscription, count: int) -> list[Event]:
    """The next events one by one: a client as slow as the test."""
    return [parsed(await anext(events)) for _ in range(count)]


async def placed(events: Subscription) -> None:
    """Up to where it has a place: the opening, the status, the place."""
    *_, last = await taken(events, 3)
    assert last.id


def values(event: Event) -> list[tuple[str, float]]:
    return list(zip(event.data["uuid"], event.data["value"], strict=True))


def by_value(client: Client) -> set[float]:
    return {row["value"] for row in client.rows}


def test_a_client_that_keeps_up_gets_every_reading() -> None:
    async def story() -> None:
        async with scene() as on:
            on.open()
            client = Client(on.subscribe())
            await client.until_place()
            for second in range(25):
                on.come(reading("a", second, second), reading("b", second, second))
                await asyncio.sleep(0.001)
            await client.until_rows(50)
            await client.leave()
            assert [row["value"] for row in client.rows] == [n // 2 for n in range(50)]
            assert on.metrics.thinned.value == 0

    told(story)


def test_the_status_comes_first_and_again_when_it_changes() -> None:
    async def story() -> None:
        async with scene() as on:
            on.status("away", "no broker answers")
            client = Client(on.subscribe())
            await client.until(lambda: client.named("status"), "a status")
            on.open()
            await client.until(lambda: len(client.named("status")) == 2, "another status")
            await client.leave()
            assert [event.data for event in client.named("status")] == [
                {"queue": "away", "detail": "no broker answers", "time": 1},
                {"queue": "ok", "detail": "", "time": 1},
            ]

    told(story)


def test_a_slow_client_gets_the_newest_of_each_series_in_one_go() -> None:
    async def story() -> None:
        async with scene(slow_after_s=1.0) as on:
            on.open()
            events = on.subscribe()
            await placed(events)
            for second in range(20):
                on.come(reading("a", second, second), reading("b", second, 50), age_s=5.0)
            on.come(reading("a", 10, 90))  # late: it is not the newest
            (event,) = await taken(events, 1)
            assert values(event) == [("a", 19), ("b", 50)]
            assert decode_position(event.id, "t") == Position(120, {0: 21})
            assert on.metrics.thinned.value == 1
            on.come(reading("a", 21, 21))
            assert values(*await taken(events, 1)) == [("a", 21)]

    told(story)


def test_a_client_that_is_a_little_late_still_gets_everything() -> None:
    async def story() -> None:
        async with scene(slow_after_s=5.0) as on:
            on.open()
            events = on.subscribe()
            await placed(events)
            for second in range(5):
                on.come(reading("a", second, second), age_s=3.0)
            assert [values(e)[0][1] for e in await taken(events, 5)] == [0, 1, 2, 3, 4]

    told(story)


def test_a_client_that_stands_still_holds_no_readings() -> None:
    async def story() -> None:
        async with scene() as on:
            on.open(bytes_max=100_000)
            events = on.subscribe()
            await placed(events)
            table = live_rows(*(reading(f"GPU-{n}") for n in range(20)))
            for _ in range(2000):
                on.come_as(table)
            assert on.stage.ring is not None
            assert on.stage.ring.bytes <= 100_000
            gap, event = await taken(events, 2)
            assert (gap.name, "was slow" in gap.data["reason"]) == ("gap", True)
            assert gap.data["from"] < gap.data["to"]
            assert event.name == "readings"

    told(story)


def test_a_client_that_stands_still_in_the_middle_lets_the_blocks_go() -> None:
    async def story() -> None:
        async with scene(slow_after_s=1.0) as on:
            on.open()
            events = on.subscribe()
            await placed(events)
            table = live_rows(*(reading(f"GPU-{n}") for n in range(6000)))
            for _ in range(20):
                on.come_as(table, age_s=5.0)
            (first,) = await taken(events, 1)
            assert (len(first.rows), first.id) == (5000, "")
            on.open(20, place=20)
            gc.collect()
            assert not [kept for kept in gc.get_objects() if isinstance(kept, Block)]
            (second,) = await taken(events, 1)
            assert (len(second.rows), bool(second.id)) == (1000, True)

    told(story)


def test_only_the_last_of_events_that_belong_together_says_the_new_place() -> None:
    async def story() -> None:
        async with scene() as on:
            on.open()
            events = on.subscribe()
            await placed(events)
            on.come(*(reading(f"GPU-{n}") for n in range(12_000)))
            first, second, third = await taken(events, 3)
            assert [len(e.rows) for e in (first, second, third)] == [5000, 5000, 2000]
            assert (first.id, second.id) == ("", "")
            assert decode_position(third.id, "t") == Position(100, {0: 1})

    told(story)


def test_an_interval_gives_the_newest_of_each_series_once_an_interval() -> None:
    async def story() -> None:
        async with scene() as on:
            on.open()
            clients = [Client(on.subscribe(interval_s=0.2)) for _ in range(2)]
            for client in clients:
                await client.until_place()
            begun = time.monotonic()
            for second in range(40):
                on.come(reading("a", second, second), reading("b", second, second))
                await asyncio.sleep(0.015)
            lasted = time.monotonic() - begun
            for client in clients:
                await client.until(lambda: 39 in by_value(client), "the last")  # noqa: B023
                await client.leave()
                events = client.named("readings")
                assert 2 <= len(events) <= lasted / 0.2 + 2
                assert all(sorted(e.data["uuid"]) == ["a", "b"] for e in events)
            assert clients[0].rows == clients[1].rows

    told(story)


def test_a_filter_that_fits_nothing_is_silent_and_its_place_moves_on() -> None:
    async def story() -> None:
        async with scene(heartbeat_s=0.1) as on:
            on.open()
            client = Client(on.subscribe(Selection(uuids=("b",))))
            await client.until_place()
            for second in range(5):
                on.come(reading("a", second))

            def moved() -> bool:
                return decode_position(client.last_id, "t") == Position(104, {0: 5})

            await client.until(moved, "the place to move on")
            on.come(reading("b", 9), reading("a", 9))
            await client.until_rows(1)
            await client.leave()
            assert [row["uuid"] for row in client.rows] == ["b"]

    told(story)


def test_signs_of_life_come_while_nothing_else_does() -> None:
    async def story() -> None:
        async with scene(heartbeat_s=0.05) as on:
            events = on.subscribe()
            opening, *beats = [await anext(events) for _ in range(3)]
            assert opening.startswith(b"retry: ")
            assert all(beat.startswith(b":") for beat in beats)

    told(story)


def test_what_the_follower_missed_is_told_in_its_place() -> None:
    async def story() -> None:
        async with scene(slow_after_s=1.0) as on:
            on.open()
            events = on.subscribe()
            await placed(events)
            on.come(reading("a", 1), age_s=9)
            on.come(reading("a", 2), gap=Gap(5, 7, "fell behind"), age_s=9)
            gap, event = await taken(events, 2)
            assert gap.data == {"from": 5, "to": 7, "reason": "fell behind"}
            assert event.name == "readings"
            on.come(reading("a", 3), gap=Gap(8, 9, "again"))
            assert [e.name for e in await taken(events, 2)] == ["gap", "readings"]

    told(story)


def test_a_place_in_the_ring_is_gone_on_from_with_everything_however_late() -> None:
    async def story() -> None:
        async with scene(slow_after_s=0.5) as on:
            on.open()
            for second in range(10):
                on.come(reading("a", second, second), age_s=5.0)
            client = Client(on.subscribe(wanted=Position(1, {0: 4})))
            await client.until_rows(6)
            await client.leave()
            assert [row["value"] for row in client.rows] == [4, 5, 6, 7, 8, 9]
            assert client.named("gap") == []
            assert on.metrics.replays.value == 0

    told(story)


def test_what_is_before_the_ring_comes_from_the_queue() -> None:
    async def story() -> None:
        stored = [received(reading("a", n, n), offset=n)[0] for n in range(8)]
        async with scene(ListReader(stored)) as on:
            on.open(6)
            on.come(reading("a", 6, 6))
            on.come(reading("a", 7, 7))
            now_ms = time.time_ns() // 1_000_000
            client = Client(on.subscribe(wanted=Position(now_ms - 10_000, {0: 3})))
            await client.until_rows(5)
            await client.leave()
            assert [row["value"] for row in client.rows] == [3, 4, 5, 6, 7]
            assert client.named("gap") == []
            ids = [decode_position(event.id, "t") for event in client.named("readings")]
            assert [at.offsets[0] for at in ids if at] == [4, 5, 6, 7, 8]

    told(story)


def test_a_place_between_two_blocks_is_gone_on_from_without_a_copy() -> None:
    """Another gateway cut the queue into other blocks."""

    async def story() -> None:
        stored = [received(reading("a", n, n), offset=n)[0] for n in range(10)]
        async with scene(ListReader(stored)) as on:
            on.open(0)
            assert on.stage.ring is not None
            for end in (5, 10):
                rows = [reading("a", n, n) for n in range(end - 5, end)]
                block = Block(live_rows(*rows), Position(end, {0: end}), time.monotonic())
                on.stage.ring.append(block)
            now_ms = time.time_ns() // 1_000_000
            client = Client(on.subscribe(wanted=Position(now_ms - 1000, {0: 3})))
            await client.until_rows(7)
            await client.leave()
            assert [row["value"] for row in client.rows] == [3, 4, 5, 6, 7, 8, 9]
            assert client.named("gap") == []

    told(story)


def test_a_client_so_slow_that_the_ring_moves_on_under_its_replay_still_gets_all() -> None:
    async def story() -> None:
        stored = [received(reading("a", n, n), offset=n)[0] for n in range(40)]
        async with scene(ListReader(stored)) as on:
            size = Block(live_rows(reading("a")), Position(0), 0.0).size
            on.open(5, bytes_max=4 * size)
            now_ms = time.time_ns() // 1_000_000
            events = on.subscribe(wanted=Position(now_ms - 1000, {0: 0}))
            seen: list[float] = []
            come = 5
            while len(seen) < 40:
                event = parsed(await anext(events))
                assert event.name != "gap"
                seen += event.data["value"] if event.name == "readings" else []
                for _ in range(2):  # the ring moves faster than the client does
                    if come < 40:
                        on.come(reading("a", come, come))
                        come += 1
            assert seen == list(range(40))

    told(story)


@pytest.mark.parametrize(
    ("reader", "wanted", "reason", "rows"),
    [
        (ListReader(old=2), 0, "at most the last 60 s", [2, 3]),
        (ListReader(first=3), 0, "at most the last 60 s", [3]),
        (ListReader(), 99, "made anew", []),
    ],
)
def test_what_the_queue_cannot_give_again_is_a_gap(
    reader: ListReader, wanted: int, reason: str, rows: list[float]
) -> None:
    async def story() -> None:
        reader.messages = [received(reading("a", n, n), offset=n)[0] for n in range(4)]
        async with scene(reader) as on:
            on.open(4)
            client = Client(on.subscribe(wanted=Position(5, {0: wanted})))
            on_place = [*rows, 4.0]
            await client.until(lambda: client.named("gap"), "a gap")
            on.come(reading("a", 4, 4))
            await client.until_rows(len(on_place))
            await client.leave()
            (gap,) = client.named("gap")
            assert reason in gap.data["reason"]
            assert gap.data["from"] == 5 < gap.data["to"]
            assert [row["value"] for row in client.rows] == on_place

    told(story)


def test_a_queue_that_is_away_in_a_replay_is_a_gap() -> None:
    async def story() -> None:
        reader = ListReader()
        reader.is_away = True
        async with scene(reader) as on:
            on.open(4)
            client = Client(on.subscribe(wanted=Position(5, {0: 0})))
            await client.until_place()
            on.come(reading("a"))
            await client.until_rows(1)
            await client.leave()
            assert [gap.data["reason"] for gap in client.named("gap")] == ["no broker answers"]

    told(story)


def test_a_queue_that_is_followed_anew_is_a_gap() -> None:
    async def story() -> None:
        async with scene() as on:
            on.open()
            client = Client(on.subscribe())
            await client.until_place()
            on.open(50, place=1)
            on.come(reading("a"))
            await client.until_rows(1)
            await client.leave()
            assert ["begin anew" in gap.data["reason"] for gap in client.named("gap")] == [True]

    told(story)


def test_all_streams_end_when_the_hub_stops() -> None:
    async def story() -> None:
        async with scene() as on:
            on.open()
            client = Client(on.subscribe())
            await client.until_place()
            on.stage.is_stopped = True
            on.wake()
            await client.ended()

    told(story)
