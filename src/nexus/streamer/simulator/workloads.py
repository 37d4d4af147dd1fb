"""Who uses which GPUs when: jobs with pods and namespaces that start and end.

A host's GPUs are divided into slots; a slot runs one job after another with gaps between. Half of
the hosts are whole slots for training across a host or two, the rest are shared by smaller jobs.
Times are milliseconds since the simulation's start; jobs that began before it have negative ones.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from nexus.streamer.simulator.fleet import Fleet
from nexus.streamer.simulator.randomness import Draws

_SLOTS: Final = 11
_JOBS: Final = 12
_SECOND: Final = 1_000


class Kind(IntEnum):
    """What a job does to its GPUs; FREE is no job."""

    FREE = 0
    TRAINING = 1
    INFERENCE = 2
    BURSTY = 3
    IDLE = 4


@dataclass(frozen=True, slots=True)
class Load:
    """How a job loads each of its GPUs: shares in thousandths, times in milliseconds."""

    level: int  # busy share (training), the wave's crest (inference)
    trough: int  # the wave's lowest
    period_ms: int  # between checkpoints, of the wave, of a burst's window
    phase_ms: int
    dip_ms: int  # a checkpoint's
    duty: int  # of 256 windows, how many are bursts
    startup_ms: int  # loading before the first kernel runs
    memory: int  # share of the GPU's memory held, thousandths
    sm: int  # SM, tensor and memory activity as shares of busy time
    tensor: int
    dram: int


@dataclass(frozen=True, slots=True)
class Job:
    """One job over its life; `pods` has a name for each of its GPUs."""

    number: int  # a hash: unique, and the seed of its load
    kind: Kind
    namespace: str
    name: str
    container: str
    gpus: tuple[int, ...]
    pods: tuple[str, ...]
    start_ms: int
    end_ms: int
    load: Load


@dataclass(frozen=True, slots=True)
class Holding:
    """A job's hold on one GPU."""

    job: Job
    gpu: int
    pod: str

    @property
    def start_ms(self) -> int:
        return self.job.start_ms

    @property
    def end_ms(self) -> int:
        return self.job.end_ms


@dataclass(frozen=True, slots=True)
class _Slot:
    number: int
    turn: int  # its place among the slots of its kind: neighbours begin with different loads
    gpus: tuple[int, ...]
    whole_hosts: bool


class Schedule:
    """Every GPU's holdings, made as time goes on and forgotten when they are over."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._holdings: list[deque[Holding]] = [deque() for _ in fleet.gpus]
        self._slots = list(_slots(fleet, seed))
        self._jobs = [_jobs(slot, fleet.gpus_per_host, seed) for slot in self._slots]
        self._made_ms = [0] * len(self._slots)  # where each slot's last job ends
        self._until_ms = 0

    def extend(self, until_ms: int) -> None:
        """Make the jobs that start before a time."""
        if until_ms <= self._until_ms:
            return
        self._until_ms = until_ms
        for index, jobs in enumerate(self._jobs):
            while self._made_ms[index] < until_ms:
                job = next(jobs)
                self._made_ms[index] = job.end_ms
                for gpu, pod in zip(job.gpus, job.pods, strict=True):
                    self._holdings[gpu].append(Holding(job, gpu, pod))

    def forget(self, before_ms: int) -> None:
        """Drop what was over before a time."""
        for holdings in self._holdings:
            while holdings and holdings[0].end_ms <= before_ms:
                holdings.popleft()

    def holdings(self, gpu: int) -> deque[Holding]:
        """A GPU's holdings in order of time."""
        return self._holdings[gpu]

    def holding_at(self, gpu: int, time_ms: int) -> Holding | None:
        """Who has a GPU at a time, of what was made and not forgotten."""
        for holding in self._holdings[gpu]:
            if holding.start_ms <= time_ms < holding.end_ms:
                return holding
        return None


def _slots(fleet: Fleet, seed: int) -> Iterator[_Slot]:
    draws = Draws(_SLOTS, seed)
    whole = len(fleet.hosts) // 2
    number, host = 0, 0
    while host < whole:
        alike = host + 1 < whole and fleet.hosts[host].model is fleet.hosts[host + 1].model
        pair = alike and draws.below(3) > 0
        span = range(fleet.of_host(host).start, fleet.of_host(host + pair).stop)
        yield _Slot(number, number, tuple(span), True)
        number, host = number + 1, host + 1 + pair
    turns = {True: 0, False: 0}  # of slots with several GPUs, and with one
    for shared in range(whole, len(fleet.hosts)):
        left = list(fleet.of_host(shared))
        for size in _sizes(len(left), draws):
            taken, left = left[:size], left[size:]
            yield _Slot(number, turns[size > 1], tuple(taken), False)
            turns[size > 1] += 1
            number += 1


def _sizes(gpus: int, draws: Draws) -> Iterator[int]:
    """How a shared host is divided: the largest part first, then pairs and single GPUs."""
    first = min(4, max(1, gpus // 2))
    yield first
    left = gpus - first
    while left:
        size = 2 if left >= 2 and draws.below(3) == 0 else 1
        yield size
        left -= size


_WHOLE: Final = (Kind.TRAINING,)
_SEVERAL: Final = (Kind.TRAINING, Kind.INFERENCE, Kind.TRAINING, Kind.IDLE)
_SINGLE: Final = (Kind.INFERENCE, Kind.BURSTY, Kind.IDLE, Kind.TRAINING, Kind.BURSTY)


def _jobs(slot: _Slot, per_host: int, seed: int) -> Iterator[Job]:
    """A slot's jobs without end; the first is under way at the start."""
    kinds = _WHOLE if slot.whole_hosts else _SEVERAL if len(slot.gpus) > 1 else _SINGLE
    end_ms = 0
    count = 0
    while True:
        draws = Draws(_JOBS, seed, slot.number, count)
        kind = kinds[(count + slot.turn) % len(kinds)]
        duration = draws.between(*_duration(kind, slot)) * _SECOND
        gap = _gap_ms(draws)
        start_ms = end_ms + gap if count else -draws.below(duration)
        job = _job(draws.word(), kind, slot, per_host, (start_ms, start_ms + duration))
        if job.end_ms > 0:
            yield job
        end_ms = job.end_ms
        count += 1


def _duration(kind: Kind, slot: _Slot) -> tuple[int, int]:
    """Least and most seconds."""
    if slot.whole_hosts:
        return 40 * 60, 240 * 60
    if kind is Kind.TRAINING:
        return (10 * 60, 60 * 60) if len(slot.gpus) > 1 else (60, 6 * 60)
    if kind is Kind.INFERENCE:
        return 20 * 60, 180 * 60
    return (2 * 60, 15 * 60) if kind is Kind.BURSTY else (10 * 60, 120 * 60)


def _gap_ms(draws: Draws) -> int:
    """Between two jobs: the next one waits already, or nobody does for a while."""
    if draws.below(2):
        return draws.between(3, 30) * _SECOND
    return draws.between(30, 300) * _SECOND


_NAMES: Final = {
    Kind.TRAINING: (
        ("llm-research", "pretrain", "trainer"),
        ("llm-research", "sft", "trainer"),
        ("vision", "detector-train", "trainer"),
        ("speech", "asr-train", "trainer"),
        ("ranking", "embed-train", "worker"),
    ),
    Kind.INFERENCE: (
        ("chat-prod", "chat-server", "server"),
        ("search-prod", "embedder", "server"),
        ("speech", "asr-serve", "server"),
    ),
    Kind.BURSTY: (
        ("batch", "caption-batch", "batch"),
        ("platform-ci", "kernel-tests", "runner"),
        ("vision", "eval-sweep", "eval"),
    ),
    Kind.IDLE: (
        ("notebooks", "jupyter", "notebook"),
        ("llm-research", "debug-shell", "shell"),
        ("speech", "sweep-agent", "agent"),
    ),
}


def _job(number: int, kind: Kind, slot: _Slot, per_host: int, life: tuple[int, int]) -> Job:
    draws = Draws(number)
    namespace, base, container = draws.pick(_NAMES[kind])
    name = f"{base}-{number >> 44:05x}"
    pods = tuple(_pod(name, kind, gpu, slot, per_host) for gpu in slot.gpus)
    return Job(
        number=number,
        kind=kind,
        namespace=namespace,
        name=name,
        container=container,
        gpus=slot.gpus,
        pods=pods,
        start_ms=life[0],
        end_ms=life[1],
        load=_load(kind, draws),
    )


def _pod(name: str, kind: Kind, gpu: int, slot: _Slot, per_host: int) -> str:
    """A pod is on one host: a job over two hosts has two."""
    rank = gpu // per_host - slot.gpus[0] // per_host
    return f"{name}-worker-{rank}" if kind is Kind.TRAINING else f"{name}-{rank}"


def _load(kind: Kind, draws: Draws) -> Load:
    period = {
        Kind.TRAINING: (60, 300),
        Kind.INFERENCE: (240, 1200),
        Kind.BURSTY: (10, 60),
        Kind.IDLE: (60, 60),
    }[kind]
    period_ms = draws.between(*period) * _SECOND
    return Load(
        level=draws.between(930, 993) if kind is Kind.TRAINING else draws.between(350, 900),
        trough=draws.between(90, 250),
        period_ms=period_ms,
        phase_ms=draws.below(period_ms),
        dip_ms=draws.between(3, 8) * _SECOND,
        duty=draws.between(70, 170),
        startup_ms=draws.between(8, 40) * _SECOND,
        memory=draws.between(850, 940) if kind is Kind.INFERENCE else draws.between(250, 900),
        sm=draws.between(780, 940) if kind is Kind.TRAINING else draws.between(350, 800),
        tensor=draws.between(330, 560) if kind is Kind.TRAINING else draws.between(80, 350),
        dram=draws.between(300, 600),
    )
