"""A fleet in motion: spans of ticks in order, the same however they are cut.

`advance` gives the next ticks' values and who held which GPU meanwhile; `skip_to` passes over
ticks, so that a source which starts again goes on where it stopped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nexus.streamer.simulator.conditions import Conditions
from nexus.streamer.simulator.config import SimulatorConfig
from nexus.streamer.simulator.faults import Fault, Planner
from nexus.streamer.simulator.fleet import Fleet
from nexus.streamer.simulator.physics import Physics, Samples
from nexus.streamer.simulator.segments import SegmentRuns, segment_runs
from nexus.streamer.simulator.workloads import Schedule

_CELLS_A_BLOCK: Final = 32_768
_TICKS_A_BLOCK: Final = 512


@dataclass(frozen=True, slots=True)
class Span:
    """Some ticks of the whole fleet; `changes` are the ticks (of the span, from 1) at which the
    holder or the condition of some GPU becomes another."""

    first: int
    ticks: int
    samples: Samples
    jobs: SegmentRuns
    changes: list[int]


class Simulation:
    """The fleet of a configuration, from its first tick on."""

    def __init__(self, config: SimulatorConfig) -> None:
        self.config = config
        self.fleet = Fleet(config)
        self.tick = 0  # the next one
        self.faults: list[Fault] = []  # planned so far; forgotten faults are over
        self._schedule = Schedule(self.fleet, config.seed)
        self._planner = Planner(self.fleet, self._schedule, config)
        self._conditions = Conditions(len(self.fleet.gpus), config.interval_ms)
        self._physics = Physics(self.fleet, config.seed, config.interval_ms)
        self._planned = 0  # periods

    def advance(self, ticks: int) -> Span:
        """The next so many ticks."""
        first, self.tick = self.tick, self.tick + ticks
        interval_ms = self.config.interval_ms
        self._schedule.forget(first * interval_ms - self.config.fault_period_ms)
        self._schedule.extend(self.tick * interval_ms)
        self._plan(self.tick * interval_ms)
        jobs = segment_runs(self._schedule, len(self.fleet.gpus), first, ticks, interval_ms)
        conditions = self._conditions.advance(first, ticks)
        samples = self._physics.block(first, ticks, jobs, conditions)
        return Span(first, ticks, samples, jobs, sorted((jobs.changes | conditions.changes) - {0}))

    def skip_to(self, tick: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Go through the ticks before one without looking at them."""
        step = block_ticks(len(self.fleet.gpus), _CELLS_A_BLOCK)
        while self.tick < tick and not stop():
            self.advance(min(step, tick - self.tick))
            self.forget_faults()

    def forget_faults(self) -> None:
        """Drop the faults that are over: a source that runs for weeks keeps none of them."""
        now_ms = self.tick * self.config.interval_ms
        self.faults = [f for f in self.faults if f.end_ms is None or f.end_ms > now_ms]

    def _plan(self, until_ms: int) -> None:
        while self._planned * self.config.fault_period_ms < until_ms:
            for strike in self._planner.plan(self._planned):
                self.faults.append(strike.fault)
                self._conditions.add(strike.effects)
            self._planned += 1


def block_ticks(gpus: int, cells: int) -> int:
    """How many ticks make a block of about so many cells (a cell is one GPU at one tick)."""
    return max(1, min(_TICKS_A_BLOCK, cells // gpus))
