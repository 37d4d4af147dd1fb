"""What goes wrong, when and where: planned by seed, one period after another.

In a period every enabled kind strikes at least once, more often in a large fleet. A fault is an
interval for the truth and a few effects on GPUs for the physics; a GPU has one fault at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from nexus.streamer.simulator.conditions import Effect
from nexus.streamer.simulator.config import FAULT_KINDS, SimulatorConfig
from nexus.streamer.simulator.fleet import Fleet
from nexus.streamer.simulator.randomness import Draws
from nexus.streamer.simulator.workloads import Kind, Schedule

_FAULTS: Final = 21
_SECOND: Final = 1_000
_GPUS_A_STRIKE: Final = 128  # one more strike of a kind for so many GPUs
_HOSTS_A_STRIKE: Final = 64
_TRIES_MAX: Final = 256  # GPUs looked at for one that a fault fits

# Codes that come together: an application's fault, a stuck engine, a link, a lost GPU.
_XID_BURSTS: Final = ((31, 43), (13, 43, 45), (119, 62, 45), (74, 45), (94, 63, 43), (79, 45))
_HW_SLOWDOWN, _SW_THERMAL, _HW_THERMAL = 0x8, 0x20, 0x40
_HEAT_OVER_C: Final = 25  # how far beyond its limit a GPU without cooling would settle


@dataclass(frozen=True, slots=True)
class Fault:
    """What the truth says; `end_ms` is None for what stays so. GPU is None for a whole host."""

    kind: str
    host: int
    gpu: int | None
    start_ms: int
    end_ms: int | None
    detail: dict[str, int | list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault and what it does to which GPU."""

    fault: Fault
    effects: list[tuple[int, Effect]]


class Planner:
    """Plans periods in order; what was struck in one is remembered for the next."""

    def __init__(self, fleet: Fleet, schedule: Schedule, config: SimulatorConfig) -> None:
        self._fleet = fleet
        self._schedule = schedule
        self._seed = config.seed
        self._kinds = config.faults
        self._period_ms = config.fault_period_ms
        self._taken_ms = [0] * len(fleet.gpus)  # a GPU has a fault until then
        self._upgraded = 0
        self._upgrade_order = Draws(_FAULTS, config.seed).shuffled(range(len(fleet.hosts)))
        self._last_ecc: list[int] = []
        self._makers: dict[str, Callable[[int, Draws], Strike | None]] = {
            "xid": self._xid,
            "throttle": self._throttle,
            "ecc": self._ecc,
            "straggler": self._straggler,
            "silent": self._silent,
            "upgrade": self._upgrade,
            "reset": self._reset,
            "replays": self._replays,
            "blank": self._blank,
        }

    def plan(self, period: int) -> Iterator[Strike]:
        """The strikes that begin in a period, in order of kind."""
        if not self._kinds:
            return
        # Faults begin in the period's second tenth and later, each kind in a part of its own.
        first_ms = period * self._period_ms + self._period_ms // 10
        part_ms = self._period_ms * 8 // 10 // len(self._kinds)
        self._schedule.extend((period + 2) * self._period_ms)
        for at, kind in enumerate(self._kinds):
            for strike in range(self._strikes(kind)):
                draws = Draws(_FAULTS, self._seed, period, FAULT_KINDS.index(kind), strike)
                start_ms = first_ms + at * part_ms + draws.below(max(1, part_ms // 2))
                start_ms -= start_ms % _SECOND
                made = self._makers[kind](start_ms, draws)
                if made is not None:
                    yield made

    def _strikes(self, kind: str) -> int:
        if kind in ("silent", "upgrade", "blank"):
            return 1 + len(self._fleet.hosts) // _HOSTS_A_STRIKE
        return 1 + len(self._fleet.gpus) // _GPUS_A_STRIKE

    def _xid(self, start_ms: int, draws: Draws) -> Strike:
        gpu = self._victim(start_ms, draws, working=True)
        codes = draws.pick(_XID_BURSTS)
        times = [start_ms]
        for _ in range(draws.between(2, 5)):
            times.append(times[-1] + draws.between(2, 15) * _SECOND)
        told = [codes[at % len(codes)] for at in range(len(times))]
        end_ms = self._end(times[-1], draws.between(20, 60))
        effects = [Effect(time, xid=code) for time, code in zip(times, told, strict=True)]
        effects += [Effect(start_ms, paused=1), Effect(end_ms, paused=0)]
        return self._gpu_strike("xid", gpu, start_ms, end_ms, effects, xids=told)

    def _throttle(self, start_ms: int, draws: Draws) -> Strike:
        gpu = self._victim(start_ms, draws, working=True)
        slowdown_c = self._fleet.gpus[gpu].host.model.slowdown_c
        end_ms = self._end(start_ms, draws.between(90, 240))
        slowed_ms = start_ms + min(30 * _SECOND, (end_ms - start_ms) // 3)
        reasons = draws.pick((_HW_SLOWDOWN | _HW_THERMAL, _SW_THERMAL, _HW_SLOWDOWN | _SW_THERMAL))
        clock = draws.between(450, 700)
        effects = [
            Effect(start_ms, heat_mc=(slowdown_c + _HEAT_OVER_C) * 1_000),
            Effect(slowed_ms, heat_mc=slowdown_c * 1_000, reasons=reasons, clock=clock),
            Effect(end_ms, heat_mc=0, reasons=0, clock=1_000),
        ]
        detail = {"slowed_after_ms": slowed_ms - start_ms, "reasons": reasons}
        return self._gpu_strike(
            "throttle", gpu, start_ms, end_ms, effects, clock_permille=clock, **detail
        )

    def _ecc(self, start_ms: int, draws: Draws) -> Strike:
        gpu = self._victim(start_ms, draws)
        end_ms = self._end(start_ms, draws.between(30, 90))
        steps = draws.between(3, 8)
        counts = [draws.between(1, 6) for _ in range(steps)]
        effects = [
            Effect(start_ms + at * (end_ms - start_ms) // steps, add_corrected=count)
            for at, count in enumerate(counts)
        ]
        effects.append(Effect(end_ms, add_uncorrected=1, add_remapped=1, xid=63))
        self._last_ecc.append(gpu)
        detail = {"corrected": sum(counts), "uncorrected": 1}
        return self._gpu_strike("ecc", gpu, start_ms, end_ms, effects, **detail)

    def _straggler(self, start_ms: int, draws: Draws) -> Strike | None:
        end_ms = self._end(start_ms, draws.between(360, 480))
        gpu = self._victim(start_ms, draws, working=True, until_ms=end_ms, peers=4)
        clock = draws.between(700, 800)
        effects = [
            Effect(start_ms, clock=clock, tensor=clock),
            Effect(end_ms, clock=1_000, tensor=1_000),
        ]
        holding = self._schedule.holding_at(gpu, start_ms)
        peers = len(holding.job.gpus) - 1 if holding else 0
        detail = {"clock_permille": clock, "peers": peers}
        return self._gpu_strike("straggler", gpu, start_ms, end_ms, effects, **detail)

    def _reset(self, start_ms: int, draws: Draws) -> Strike | None:
        """The GPU whose memory failed last is reset, if there is one."""
        mended = [gpu for gpu in self._last_ecc if self._taken_ms[gpu] <= start_ms]
        gpu = mended[0] if mended else self._victim(start_ms, draws)
        self._last_ecc = [other for other in self._last_ecc if other != gpu]
        end_ms = self._end(start_ms, draws.between(20, 60))
        effects = [Effect(start_ms, paused=1, reset=True), Effect(end_ms, paused=0)]
        return self._gpu_strike("reset", gpu, start_ms, end_ms, effects)

    def _replays(self, start_ms: int, draws: Draws) -> Strike:
        gpu = self._victim(start_ms, draws)
        end_ms = self._end(start_ms, draws.between(60, 180))
        times = range(start_ms, end_ms, max(_SECOND, (end_ms - start_ms) // 30))
        counts = [draws.between(1, 5) for _ in times]
        effects = [
            Effect(time, add_replays=count) for time, count in zip(times, counts, strict=True)
        ]
        return self._gpu_strike("replays", gpu, start_ms, end_ms, effects, count=sum(counts))

    def _silent(self, start_ms: int, draws: Draws) -> Strike | None:
        # A host without other faults, where there is one: silence would hide them.
        hosts = [gpu // self._fleet.gpus_per_host for gpu in self._tries(draws)]
        host = min(hosts, key=lambda host: self._faults_on(host, start_ms))
        end_ms = self._end(start_ms, draws.between(45, 150))
        effects = [Effect(start_ms, silent=1), Effect(end_ms, silent=0)]
        return self._host_strike("silent", host, start_ms, end_ms, effects)

    def _blank(self, start_ms: int, draws: Draws) -> Strike | None:
        host = draws.below(len(self._fleet.hosts))
        end_ms = self._end(start_ms, draws.between(45, 150))
        effects = [Effect(start_ms, blank=1), Effect(end_ms, blank=0)]
        return self._host_strike("blank", host, start_ms, end_ms, effects)

    def _upgrade(self, start_ms: int, draws: Draws) -> Strike | None:
        if self._upgraded == len(self._upgrade_order):
            return None
        host = self._upgrade_order[self._upgraded]
        self._upgraded += 1
        return self._host_strike("upgrade", host, start_ms, None, [Effect(start_ms, generation=1)])

    def _gpu_strike(
        self,
        kind: str,
        gpu: int,
        start_ms: int,
        end_ms: int,
        effects: list[Effect],
        **detail: int | list[int],
    ) -> Strike:
        self._taken_ms[gpu] = max(self._taken_ms[gpu], end_ms)
        host = self._fleet.gpus[gpu].host.index
        fault = Fault(kind, host, gpu, start_ms, end_ms, detail)
        return Strike(fault, [(gpu, effect) for effect in effects])

    def _host_strike(
        self, kind: str, host: int, start_ms: int, end_ms: int | None, effects: list[Effect]
    ) -> Strike:
        gpus = self._fleet.of_host(host)
        fault = Fault(kind, host, None, start_ms, end_ms)
        return Strike(fault, [(gpu, effect) for gpu in gpus for effect in effects])

    def _end(self, start_ms: int, seconds: int) -> int:
        return start_ms + min(seconds * _SECOND, self._period_ms * 9 // 10)

    def _faults_on(self, host: int, time_ms: int) -> int:
        return sum(self._taken_ms[gpu] > time_ms for gpu in self._fleet.of_host(host))

    def _victim(
        self,
        start_ms: int,
        draws: Draws,
        *,
        working: bool = False,
        until_ms: int | None = None,
        peers: int = 0,
    ) -> int:
        """A GPU without a fault; one that trains with enough peers where that is asked for."""
        tried = self._tries(draws)
        sound = [gpu for gpu in tried if self._taken_ms[gpu] <= start_ms] or tried
        if not working:
            return sound[0]
        asked = (peers, 1, 0) if peers else (0,)
        for least in asked:
            for gpu in sound:
                if self._trains(gpu, start_ms, until_ms or start_ms, least):
                    return gpu
        return sound[0]

    def _tries(self, draws: Draws) -> list[int]:
        """GPUs in an order of their own: all of a small fleet, some of a large one."""
        order, gpus = Draws(draws.word()), len(self._taken_ms)
        if gpus <= _TRIES_MAX:
            return order.shuffled(range(gpus))
        return [order.below(gpus) for _ in range(_TRIES_MAX)]

    def _trains(self, gpu: int, start_ms: int, until_ms: int, peers: int) -> bool:
        holding = self._schedule.holding_at(gpu, start_ms)
        if holding is None or holding.job.kind is not Kind.TRAINING:
            return False
        job = holding.job
        settled = job.start_ms + job.load.startup_ms <= start_ms and until_ms <= job.end_ms
        return settled and len(job.gpus) > peers
