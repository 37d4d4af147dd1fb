"""A pace that changes while readings flow: nothing is lost, doubled or held back by the old one."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from nexus.streamer.pacing import FlatOut, Grant, Granted
from nexus.streamer.repacing import Pace

TABLE = pa.table({"n": list(range(10))})


class Clock:
    """Time that passes by sleeping only."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def granted(clock: Clock, rows: int, period_s: float) -> Granted:
    return Granted(Grant(rows, period_s), clock, clock.sleep)


async def given(pace: Pace, clock: Clock, change_after: int | None = None) -> list[tuple[int, int]]:
    """The readings with the second in which each came; the pace changes after so many."""
    came: list[tuple[int, int]] = []
    async for piece in pace.pacer().pieces(TABLE):
        came += [(int(clock.now), n) for n in piece.column("n").to_pylist()]
        if change_after is not None and len(came) >= change_after:
            pace.change(FlatOut)
            change_after = None
    return came


def test_without_a_change_it_is_the_pace_itself() -> None:
    clock = Clock()
    pace = Pace(lambda: granted(clock, 5, 1.0))
    came = asyncio.run(given(pace, clock))
    assert came == [(0, n) for n in range(5)] + [(1, n) for n in range(5, 10)]


def test_what_is_left_of_a_table_goes_at_the_new_pace() -> None:
    clock = Clock()
    pace = Pace(lambda: granted(clock, 1, 100.0))
    came = asyncio.run(given(pace, clock, change_after=3))
    assert [n for _, n in came] == list(range(10))
    assert {second for second, _ in came[3:]} == {200}


def test_the_next_table_of_a_pass_has_the_new_pace_from_its_beginning() -> None:
    clock = Clock()
    pace = Pace(FlatOut)

    async def story() -> list[int]:
        pacer = pace.pacer()
        first = [piece.num_rows async for piece in pacer.pieces(TABLE)]
        pace.change(lambda: granted(clock, 4, 1.0))
        return [*first, *[piece.num_rows async for piece in pacer.pieces(TABLE)]]

    assert asyncio.run(story()) == [10, 4, 4, 2]


def test_a_table_without_readings_is_done_at_once() -> None:
    clock = Clock()

    async def story() -> list[int]:
        pacer = Pace(lambda: granted(clock, 4, 1.0)).pacer()
        return [piece.num_rows async for piece in pacer.pieces(TABLE.slice(0, 0))]

    assert sum(asyncio.run(story())) == 0
