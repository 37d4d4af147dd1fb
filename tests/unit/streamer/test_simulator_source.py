"""`sim://` as a source: paced, resumed and shared as the streamer needs it."""

import asyncio
from collections.abc import Mapping

import pyarrow as pa
import pytest

from nexus.streamer.simulator import Simulation, SimulatorConfig, SimulatorError
from nexus.streamer.simulator.render import Renderer
from nexus.streamer.sources.port import Block, Position, Shard, SourceOptions
from nexus.streamer.sources.sim import SimSource, open_sim
from nexus.streamer.sources.sim_url import parse_sim_url

URL = "sim://?hosts=2&gpus=2&seed=9&interval=1s&faults=none"
DAY_MS = 1_760_000_000_000


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, now_ms: int = DAY_MS) -> None:
        self.now_ms = now_ms
        self.slept: list[float] = []

    def __call__(self) -> int:
        return self.now_ms

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ms += round(seconds * 1_000)


def source(url: str, clock: Clock | None = None, **options: object) -> SimSource:
    clock = clock or Clock()
    chosen = SourceOptions(**options)  # type: ignore[arg-type]
    return SimSource(parse_sim_url(url, 3_000), chosen, clock=clock, sleep=clock.sleep)


def take(made: SimSource, count: int, start: Mapping[str, Position] | None = None) -> list[Block]:
    async def run() -> list[Block]:
        found: list[Block] = []
        async for block in made.blocks(start or {}):
            found.append(block)
            if len(found) == count:
                await made.close()
        return found

    return asyncio.run(run())


def after(block: Block) -> dict[str, Position]:
    assert block.position is not None
    return {block.position.stream: block.position}


def rows_of(blocks: list[Block]) -> pa.Table:
    return pa.concat_tables([block.table for block in blocks]).unify_dictionaries()


def test_a_live_fleet_gives_each_tick_at_its_time() -> None:
    clock = Clock()
    blocks = take(source(URL, clock), 3)
    assert [block.table["timestamp"][0].value // 1_000 for block in blocks] == [
        DAY_MS,
        DAY_MS + 1_000,
        DAY_MS + 2_000,
    ]
    assert clock.slept == [1.0, 1.0]


def test_the_source_and_a_file_have_the_same_values() -> None:
    blocks = take(source(URL + "&start=2025-01-01T00:00:00Z&speed=max&duration=90s"), -1)
    simulation = Simulation(SimulatorConfig(hosts=2, gpus=2, seed=9, faults=()))
    expected = Renderer(simulation).table(simulation.advance(90))
    assert rows_of(blocks).to_pylist() == expected.to_pylist()


def test_a_restart_goes_on_after_the_last_position() -> None:
    clock = Clock()
    whole = take(source(URL, clock), 6)
    again = take(source(URL, Clock(clock.now_ms)), 2, after(whole[2]))
    # The two ticks that were due meanwhile and the next come as one block.
    missed = rows_of(whole[3:]).to_pylist()
    assert rows_of(again).to_pylist()[: len(missed)] == missed


def test_a_long_pause_is_not_made_up_for() -> None:
    first = take(source(URL), 1)
    later = Clock(DAY_MS + 3_600_000)
    [block, *_] = take(source(URL + "&catchup=1m", later), 1, after(first[0]))
    assert block.table["timestamp"][0].value // 1_000 == later.now_ms - 60_000


def test_another_fleet_does_not_go_on_from_this_one_s_position() -> None:
    first = take(source(URL), 4)
    [block] = take(source(URL.replace("seed=9", "seed=8")), 1, after(first[-1]))
    assert block.table["timestamp"][0].value // 1_000 == DAY_MS


def test_a_tick_larger_than_a_block_is_cut_and_repeated_after_a_crash() -> None:
    blocks = take(source(URL, block_rows=30), 3)
    assert [block.table.num_rows for block in blocks] == [30, 30, 20]
    ticks = [block.position.state["tick"] for block in blocks if block.position]
    assert ticks == [0, 0, 1]


def test_speed_shortens_the_wait() -> None:
    clock = Clock()
    take(source(URL + "&speed=10&start=2025-01-01T00:00:00Z", clock), 3)
    assert clock.slept == [0.1, 0.1]


def test_shares_have_different_hosts_and_all_of_them() -> None:
    url = "sim://?hosts=6&gpus=1&interval=1s&duration=2s&speed=max"
    shares = [take(source(url, shard=Shard(index, 2)), -1) for index in range(2)]
    hosts = [set(rows_of(blocks)["hostname"].to_pylist()) if blocks else set() for blocks in shares]
    assert not hosts[0] & hosts[1]
    assert len(hosts[0] | hosts[1]) == 6


def test_the_interval_comes_from_the_options_unless_the_address_has_one() -> None:
    assert parse_sim_url("sim://", 3_000).config.interval_ms == 3_000
    assert parse_sim_url("sim://?interval=250ms", 3_000).config.interval_ms == 250
    described = open_sim("sim://?hosts=1", SourceOptions()).describe()
    assert described == "a simulated fleet of 1 host with 8 GPUs, seed 1, every 3 s"


@pytest.mark.parametrize(
    "url",
    [
        "sim://?hosts=many",
        "sim://?speed=0",
        "sim://?speed=nan",
        "sim://?interval=soon",
        "sim://?start=yesterday",
        "sim://?colour=red",
        "sim://somewhere/else",
        "sim://?faults=fire",
    ],
)
def test_a_wrong_address_is_one_clear_error(url: str) -> None:
    with pytest.raises(SimulatorError):
        parse_sim_url(url, 1_000)
