"""A simulated fleet as a source: `sim://?hosts=4&gpus=8&seed=1`.

Without a start it lives in the present: a tick's readings come when its time comes. After a
restart it goes on at the tick after the last acknowledged one, with the same values.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from nexus.streamer.simulator.render import Renderer
from nexus.streamer.simulator.simulation import Simulation
from nexus.streamer.sources.port import BLOCK_ROWS_MAX, Block, Position, SourceOptions
from nexus.streamer.sources.sim_url import SimPlan, parse_sim_url

_log: Final = logging.getLogger(__name__)

Clock = Callable[[], int]  # milliseconds since 1970
Sleep = Callable[[float], Awaitable[None]]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def open_sim(url: str, options: SourceOptions) -> "SimSource":
    """The source that a `sim://` address names."""
    return SimSource(parse_sim_url(url, round(options.interval_s * 1_000)), options)


class SimSource:
    """A fleet's readings, each tick once its time has come; what waits is not lost."""

    live = False

    def __init__(
        self,
        plan: SimPlan,
        options: SourceOptions,
        *,
        clock: Clock = _now_ms,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._plan = plan
        self._shard = options.shard
        self._block_rows = max(1, min(options.block_rows, BLOCK_ROWS_MAX))
        self._clock = clock
        self._sleep = sleep
        self._closed = threading.Event()

    def describe(self) -> str:
        """Such as "a simulated fleet of 4 hosts with 8 GPUs"."""
        config = self._plan.config
        hosts = "host" if config.hosts == 1 else "hosts"
        gpus = "GPU" if config.gpus == 1 else "GPUs"
        return (
            f"a simulated fleet of {config.hosts} {hosts} with {config.gpus} {gpus}, "
            f"seed {config.seed}, every {config.interval_ms / 1_000:g} s"
        )

    def size_hint(self) -> None:
        """Readings are made, not read."""

    async def close(self) -> None:
        """Stop; a block that is being made is the last."""
        self._closed.set()

    async def blocks(self, start: Mapping[str, Position]) -> AsyncIterator[Block]:
        """Blocks in order of time; a tick's rows are in one block or in several on end."""
        tick, start_ms = self._place(start.get(self._plan.stream))
        simulation = Simulation(replace(self._plan.config, start_ms=start_ms))
        renderer = Renderer(simulation, self._shard.owns)
        if not renderer.rows_a_tick:
            return
        await asyncio.to_thread(simulation.skip_to, tick, self._closed.is_set)
        due = _Due(self._plan, simulation, self._clock)
        batch = max(1, self._block_rows // renderer.rows_a_tick)
        while not self._closed.is_set() and not self._over(simulation.tick):
            await self._wait(due)
            ticks = min(batch, due.ticks(), self._left(simulation.tick))
            table = await asyncio.to_thread(_rendered, simulation, renderer, ticks)
            for block in self._cut(table, simulation.tick - ticks, simulation.tick, start_ms):
                yield block

    def _place(self, position: Position | None) -> tuple[int, int]:
        """The tick to go on with, and the time of tick 0."""
        plan, config = self._plan, self._plan.config
        now_ms = self._clock()
        if position is None:
            present = now_ms - now_ms % config.interval_ms
            return 0, present if plan.aligned else config.start_ms
        tick, start_ms = int(str(position.state["tick"])), int(str(position.state["start_ms"]))
        if plan.aligned:
            latest = (now_ms - plan.catchup_ms - start_ms) // config.interval_ms
            if latest > tick:
                _log.warning(
                    "left out %d ticks of the time that the source was away", latest - tick
                )
                tick = latest
        return tick, start_ms

    def _over(self, tick: int) -> bool:
        return self._plan.ticks is not None and tick >= self._plan.ticks

    def _left(self, tick: int) -> int:
        return BLOCK_ROWS_MAX if self._plan.ticks is None else self._plan.ticks - tick

    async def _wait(self, due: "_Due") -> None:
        while (left_ms := due.wait_ms()) > 0 and not self._closed.is_set():
            # Short naps: the clock may be set, and a closed source should end soon.
            await self._sleep(min(left_ms, 1_000) / 1_000)

    def _cut(self, table: pa.Table, first: int, end: int, start_ms: int) -> Iterator[Block]:
        """Blocks that are not too large; a position never stands before rows not given yet."""
        for at in range(0, max(1, table.num_rows), self._block_rows):
            last = at + self._block_rows >= table.num_rows
            state = {"tick": end if last else first, "start_ms": start_ms}
            yield Block(table.slice(at, self._block_rows), Position(self._plan.stream, state))


class _Due:
    """When ticks are due: at their own time, or evenly from when the source began."""

    def __init__(self, plan: SimPlan, simulation: Simulation, clock: Clock) -> None:
        self._simulation = simulation
        self._clock = clock
        self._speed = plan.speed
        self._origin_ms = simulation.config.start_ms
        self._first = 0
        if not plan.aligned:
            self._origin_ms, self._first = clock(), simulation.tick

    def wait_ms(self) -> float:
        """How long until the next tick."""
        if self._speed is None:
            return 0
        passed = (self._simulation.tick - self._first) * self._simulation.config.interval_ms
        return self._origin_ms + passed / self._speed - self._clock()

    def ticks(self) -> int:
        """How many ticks are due now; at least one."""
        if self._speed is None:
            return BLOCK_ROWS_MAX
        late_ms = -self.wait_ms() * self._speed
        return max(1, int(late_ms // self._simulation.config.interval_ms) + 1)


def _rendered(simulation: Simulation, renderer: Renderer, ticks: int) -> pa.Table:
    table = renderer.table(simulation.advance(ticks))
    simulation.forget_faults()
    return table
