"""From load to readings: power follows load, temperature follows power, clocks obey both.

Every tick of every GPU at once in whole columns of integers; only temperature and energy, which
depend on the tick before, go tick by tick. Nothing here draws but from a hash of (GPU, tick), so
a block's size changes no value.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.streamer.simulator import columns as col
from nexus.streamer.simulator.conditions import ConditionRuns
from nexus.streamer.simulator.fleet import Fleet
from nexus.streamer.simulator.grid import Grid, grid
from nexus.streamer.simulator.randomness import GOLDEN, bits, mix, mix_column
from nexus.streamer.simulator.segments import SegmentRuns
from nexus.streamer.simulator.workloads import Kind

_NOISE: Final = 31
_ENERGY: Final = 32
_FULL: Final = 10_000  # a share of 1 in the unit of activity columns
_ACTIVE_LEAST: Final = 800  # an active GPU is well over the 5 % that divide active from idle
_CLOCK_STEP_MHZ: Final = 15
_FILL_MS: Final = 15_000  # from the first allocation to all the memory a job holds
_LAG_MS: Final = 40_000  # time constant of a heat sink
_IDLE_BIT, _POWER_CAP_BIT = 0x1, 0x4

_STEP: Final = pa.scalar(GOLDEN, pa.uint64())

Columns = dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class Samples:
    """A block of readings' values, one int64 column a quantity, cells in the grid's order."""

    first: int  # the first tick
    grid: Grid
    columns: Columns
    active: pa.Array
    held: pa.Array
    silent: pa.Array
    blank: pa.Array
    generation: pa.Array


@dataclass(frozen=True, slots=True)
class _Cells:
    """What is known of each cell before its values are made."""

    card: Columns  # the GPU's constants
    load: Columns  # its job's
    fault: Columns  # its condition
    noise: pa.Array
    age: pa.Array  # of its job, ms
    held: pa.Array


class Physics:
    """Carries each GPU's temperature and energy from one block to the next."""

    def __init__(self, fleet: Fleet, seed: int, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._gpu = _gpu_columns(fleet, seed)
        self._static: tuple[Grid, Columns] | None = None
        self._lag = 1024 * interval_ms // (interval_ms + _LAG_MS)
        self._temp_mc: pa.Array | None = None
        self._energy_mj: pa.Array = self._gpu["energy"]
        self._resets: pa.Array = pa.repeat(pa.scalar(0, pa.int64()), len(fleet.gpus))

    def block(self, first: int, ticks: int, jobs: SegmentRuns, faults: ConditionRuns) -> Samples:
        """The values of ticks first to first + ticks - 1, which must follow the last block's."""
        shape = grid(ticks, len(self._resets))
        cells = self._cells(first, shape, jobs, faults)
        active, busy = _busy(cells)
        out = _activity(cells, active, busy)
        power, demand = _power(cells, out)
        out |= _clocks(cells, active, demand)
        out |= _memory(cells)
        out |= self._carried(shape, cells, power, out["dram"])
        out["power"] = col.divide(power, 10)
        fault = cells.fault
        for name in ("xid", "corrected", "uncorrected", "remapped", "replays"):
            out[name] = fault[name]
        flags = {name: col.differs(fault[name], 0) for name in ("silent", "blank", "generation")}
        return Samples(first, shape, out, active, cells.held, **flags)

    def _cells(self, first: int, shape: Grid, jobs: SegmentRuns, faults: ConditionRuns) -> _Cells:
        card = self._cards(shape)
        load_rows = shape.spread(jobs.rows, jobs.lengths)
        load = {name: column.take(load_rows) for name, column in jobs.columns.items()}
        fault_rows = shape.spread(faults.rows, faults.lengths)
        fault = {name: column.take(fault_rows) for name, column in faults.columns.items()}
        ticks = col.add(shape.tick, first)
        steps = col.multiply(ticks.cast(pa.uint64()), _STEP)
        age = col.subtract(col.multiply(ticks, self._interval_ms), load["start"])
        held = col.differs(load["kind"], int(Kind.FREE))
        return _Cells(card, load, fault, mix_column(col.add(card["noise"], steps)), age, held)

    def _cards(self, shape: Grid) -> Columns:
        if self._static is None or self._static[0] is not shape:
            self._static = shape, {n: shape.of_gpus(c) for n, c in self._gpu.items()}
        return self._static[1]

    def _carried(self, shape: Grid, cells: _Cells, power: pa.Array, dram: pa.Array) -> Columns:
        """Temperature and energy, each from its value a tick before."""
        card, fault = cells.card, cells.fault
        by_power = col.add(card["ambient"], col.divide(col.multiply(power, card["heat"]), 1_000))
        target = col.larger(by_power, fault["heat_mc"])
        added = col.divide(col.multiply(power, self._interval_ms), 1_000)
        resets = fault["resets"]
        temp = target[: shape.gpus] if self._temp_mc is None else self._temp_mc
        energy = self._energy_mj
        temps, energies = [], []
        for at in range(0, shape.ticks * shape.gpus, shape.gpus):
            gap = col.subtract(target.slice(at, shape.gpus), temp)
            temp = col.add(temp, col.divide(col.multiply(gap, self._lag), 1024))
            energy = col.add(self._kept(energy, resets, at), added.slice(at, shape.gpus))
            temps.append(temp)
            energies.append(energy)
        self._temp_mc, self._energy_mj = temp, energy
        hot = pa.concat_arrays(temps)
        memory = col.add(col.add(hot, 3_000), col.divide(col.multiply(dram, 9), 10))
        return {
            "temp": col.divide(hot, 1_000),
            "memory_temp": col.divide(memory, 1_000),
            "energy": pa.concat_arrays(energies),
        }

    def _kept(self, energy: pa.Array, resets: pa.Array, at: int) -> pa.Array:
        """The energy counted so far: nothing for a GPU that is reset at this tick."""
        now = resets.slice(at, len(energy))
        if now.equals(self._resets):
            return energy
        kept = col.choose(col.equal(now, self._resets), energy, 0)
        self._resets = now
        return kept


def _busy(cells: _Cells) -> tuple[pa.Array, pa.Array]:
    """Which GPUs run something, and for what share of the time."""
    load, age, noise = cells.load, cells.age, cells.noise
    shifted = col.add(age, load["phase"])
    window = col.divide(shifted, load["period"])
    into = col.subtract(shifted, col.multiply(window, load["period"]))
    jitter = col.subtract(bits(noise, 0, 10), 512)
    steady = col.add(load["level"], col.divide(jitter, 8))
    training = col.choose(col.less(into, load["dip"]), col.add(jitter, 2_000), steady)
    drawn = mix_column(col.add(load["seed"], col.multiply(window.cast(pa.uint64()), _STEP)))
    burst = col.add(col.divide(col.multiply(bits(drawn, 8, 12), 6_500), 4_096), 3_000)
    kind = load["kind"]
    is_kind = {k: col.equal(kind, int(k)) for k in (Kind.TRAINING, Kind.INFERENCE, Kind.BURSTY)}
    flowing = col.add(
        col.choose(is_kind[Kind.INFERENCE], _wave(load, into), burst), col.divide(jitter, 2)
    )
    bursting = pc.and_(is_kind[Kind.BURSTY], col.less(bits(drawn, 0, 8), load["duty"]))
    works = pc.or_(pc.or_(is_kind[Kind.TRAINING], is_kind[Kind.INFERENCE]), bursting)
    started = pc.greater_equal(age, load["startup"])
    active = pc.and_(pc.and_(works, started), col.equal(cells.fault["paused"], 0))
    wanted = col.choose(is_kind[Kind.TRAINING], training, flowing)
    return active, col.smaller(col.larger(wanted, _ACTIVE_LEAST), _FULL)


def _wave(load: Columns, into: pa.Array) -> pa.Array:
    """Demand that rises and falls evenly between trough and crest."""
    rest = col.subtract(load["period"], into)
    climbed = col.multiply(col.smaller(into, rest), 2)
    height = col.subtract(load["level"], load["trough"])
    return col.add(load["trough"], col.divide(col.multiply(height, climbed), load["period"]))


def _activity(cells: _Cells, active: pa.Array, busy: pa.Array) -> Columns:
    """The profiling shares and the two utilisations in percent."""
    load = cells.load
    flicker = col.choose(cells.held, bits(cells.noise, 10, 6), 0)
    engine = col.choose(active, busy, flicker)
    tensor = col.multiply(engine, col.multiply(load["tensor"], cells.fault["tensor"]))
    dram = col.divide(col.multiply(engine, load["dram"]), 1_000)
    rounded = col.smaller(col.divide(col.add(engine, 150), 100), 100)
    return {
        "engine": engine,
        "sm": col.divide(col.multiply(engine, load["sm"]), 1_000),
        "tensor": col.divide(tensor, 1_000_000),
        "dram": dram,
        "util": col.choose(active, rounded, 0),
        "copy": col.divide(dram, 100),
    }


def _power(cells: _Cells, out: Columns) -> tuple[pa.Array, pa.Array]:
    """Milliwatts drawn, and milliwatts that the load would draw without a cap."""
    card, noise = cells.card, cells.noise
    # Steady training asks for more than the cap, as it does on real cards.
    parts = (("engine", 300), ("sm", 420), ("tensor", 950), ("dram", 300))
    weighed = [col.multiply(out[name], weight) for name, weight in parts]
    share = col.divide(
        col.add(col.add(weighed[0], weighed[1]), col.add(weighed[2], weighed[3])), 1_000
    )
    base = col.choose(cells.held, card["held_mw"], card["idle_mw"])
    swing = col.divide(col.multiply(share, card["range_w"]), 10)
    wobble = col.add(bits(noise, 16, 10), 51_200 - 512)  # within 1 %
    demand = col.divide(col.multiply(col.add(base, swing), wobble), 51_200)
    under = col.subtract(card["cap_mw"], col.multiply(bits(noise, 26, 9), 8))
    fitting = col.smaller(demand, under)
    over_base = col.multiply(col.subtract(fitting, base), cells.fault["clock"])
    return col.add(base, col.divide(over_base, 1_000)), demand


def _clocks(cells: _Cells, active: pa.Array, demand: pa.Array) -> Columns:
    """Clocks in MHz, in steps as the hardware has them, and the reasons for being slow."""
    card, fault, cap = cells.card, cells.fault, cells.card["cap_mw"]
    over = pc.and_(active, pc.greater(demand, cap))
    fitting = col.divide(col.multiply(card["sm_clock"], cap), col.larger(demand, 1))
    wanted = col.choose(over, fitting, card["sm_clock"])
    slowed = col.divide(col.multiply(wanted, fault["clock"]), 1_000)
    stepped = col.multiply(col.divide(slowed, _CLOCK_STEP_MHZ), _CLOCK_STEP_MHZ)
    # What a fault slows down already does not reach the cap.
    capped = pc.and_(over, col.equal(fault["clock"], 1_000))
    idle = col.choose(active, 0, _IDLE_BIT)
    reasons = pc.bit_wise_or(col.choose(capped, _POWER_CAP_BIT, idle), fault["reasons"])
    return {
        "sm_clock": col.choose(cells.held, stepped, card["sm_idle"]),
        "memory_clock": col.choose(cells.held, card["memory_clock"], card["memory_idle"]),
        "reasons": reasons,
    }


def _memory(cells: _Cells) -> Columns:
    """Filled in the job's first seconds and then held to its end, busy or not."""
    card = cells.card
    whole = col.divide(col.multiply(card["usable"], cells.load["memory"]), 1_000)
    filled = col.divide(col.multiply(whole, col.smaller(cells.age, _FILL_MS)), _FILL_MS)
    used = col.choose(cells.held, col.add(filled, 530), card["unheld"])
    return {"used": used, "free": col.subtract(card["usable"], used)}


def _gpu_columns(fleet: Fleet, seed: int) -> Columns:
    """What is constant for each GPU."""
    gpus = fleet.gpus
    models = [gpu.host.model for gpu in gpus]
    noise = [mix(_NOISE, seed, gpu.index) for gpu in gpus]
    whole = {
        "ambient": [gpu.host.ambient_c * 1_000 for gpu in gpus],
        "heat": [model.heat + noise[at] % 5 for at, model in enumerate(models)],
        "cap_mw": [model.cap_w * 1_000 for model in models],
        "idle_mw": [model.idle_w * 1_000 for model in models],
        "held_mw": [model.held_w * 1_000 for model in models],
        "range_w": [model.cap_w - model.held_w for model in models],
        "sm_clock": [model.sm_clock_mhz for model in models],
        "sm_idle": [model.sm_idle_mhz for model in models],
        "memory_clock": [model.memory_clock_mhz for model in models],
        "memory_idle": [model.memory_idle_mhz for model in models],
        "usable": [model.memory_mib - model.reserved_mib for model in models],
        "unheld": [noise[at] % 5 for at in range(len(gpus))],
        "energy": [mix(_ENERGY, seed, gpu.index) % 10**13 for gpu in gpus],
    }
    columns = {name: pa.array(values, pa.int64()) for name, values in whole.items()}
    return columns | {"noise": pa.array(noise, pa.uint64())}
