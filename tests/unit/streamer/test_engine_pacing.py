"""Readings go at the rate, the batch or the speed that was asked for."""

import asyncio
from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from nexus.streamer.pacing import (
    AsRecorded,
    FlatOut,
    Grant,
    Granted,
    Pacer,
    grant_for_rate,
)
from nexus.telemetry.reading import TIMESTAMP


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def paced(pacer: Pacer, time: Time, *tables: pa.Table) -> list[tuple[float, int]]:
    """When each piece came (seconds from the start), and its rows."""

    async def collect() -> AsyncIterator[tuple[float, int]]:
        for table in tables:
            async for piece in pacer.pieces(table):
                yield round(time.now - 100.0, 3), piece.num_rows

    async def run() -> list[tuple[float, int]]:
        return [each async for each in collect()]

    return asyncio.run(run())


def rows(count: int) -> pa.Table:
    return pa.table({"n": list(range(count))})


def at_seconds(*seconds: float) -> pa.Table:
    return pa.table({"timestamp": pa.array([int(s * 1e6) for s in seconds], TIMESTAMP)})


def test_flat_out_waits_for_nothing() -> None:
    assert paced(FlatOut(), Time(), rows(5), rows(3)) == [(0.0, 5), (0.0, 3)]


@pytest.mark.parametrize("rate", [1, 7, 10, 33, 1000, 250_000])
def test_a_rate_holds_over_many_blocks(rate: int) -> None:
    time = Time()
    pieces = paced(Granted(grant_for_rate(rate), time.clock, time.sleep), time, *[rows(rate)] * 5)
    assert sum(count for _, count in pieces) == 5 * rate
    took = pieces[-1][0]
    assert 3.85 <= took <= 5.0
    assert max(count for _, count in pieces) <= rate * 0.1 + 1


def test_a_batch_goes_out_every_interval_across_blocks() -> None:
    time = Time()
    pacer = Granted(Grant(100, 3.0), time.clock, time.sleep)
    assert paced(pacer, time, rows(130), rows(170)) == [
        (0.0, 100),
        (3.0, 30),
        (3.0, 70),
        (6.0, 100),
    ]


def test_time_lost_is_not_made_up_for_in_one_burst() -> None:
    time = Time()
    pacer = Granted(Grant(10, 1.0), time.clock, time.sleep)
    paced(pacer, time, rows(10))
    time.now += 60
    assert [count for _, count in paced(pacer, time, rows(30))] == [10, 10, 10]
    assert time.now - 100.0 >= 61


def test_a_recording_plays_at_its_own_speed() -> None:
    time = Time()
    pacer = AsRecorded(1.0, time.clock, time.sleep)
    pieces = paced(pacer, time, at_seconds(10, 10, 11), at_seconds(13, 13))
    assert pieces == [(0.0, 2), (1.0, 1), (3.0, 2)]


def test_ten_times_the_speed_takes_a_tenth_of_the_time() -> None:
    time = Time()
    pieces = paced(AsRecorded(10.0, time.clock, time.sleep), time, at_seconds(0, 20, 40))
    assert pieces == [(0.0, 1), (2.0, 1), (4.0, 1)]


def test_a_metric_major_file_waits_for_its_latest_time_only_once() -> None:
    time = Time()
    pieces = paced(AsRecorded(1.0, time.clock, time.sleep), time, at_seconds(0, 1, 2, 0, 1, 2, 3))
    assert pieces == [(0.0, 1), (1.0, 1), (2.0, 4), (3.0, 1)]
