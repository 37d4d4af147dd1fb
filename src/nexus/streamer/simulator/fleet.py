"""The machines: hosts with GPUs of one model each, and what each model can do.

A host and its GPUs depend on the seed and their own numbers only, so a fleet with more hosts
begins with the same ones.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from nexus.streamer.simulator.config import SimulatorConfig
from nexus.streamer.simulator.randomness import Draws, mix

_FLEET: Final = 1  # the first key of every draw made here
_ORDER: Final = 2


@dataclass(frozen=True, slots=True)
class GpuModel:
    """What a data sheet and an idle card tell about a model."""

    name: str
    short: str
    memory_mib: int
    reserved_mib: int
    cap_w: int
    idle_w: int  # no process
    held_w: int  # a process that does nothing
    sm_clock_mhz: int
    sm_idle_mhz: int
    memory_clock_mhz: int
    memory_idle_mhz: int
    heat: int  # thousandths of a degree for each watt
    slowdown_c: int
    has_memory_temp: bool = True


H100: Final = GpuModel(
    "NVIDIA H100 80GB HBM3", "h100", 81_559, 551, 700, 70, 115, 1980, 345, 2619, 2619, 57, 87
)
H200: Final = GpuModel(
    "NVIDIA H200", "h200", 143_771, 615, 700, 76, 118, 1980, 345, 3201, 3201, 55, 87
)
A100: Final = GpuModel(
    "NVIDIA A100-SXM4-80GB", "a100", 81_920, 631, 400, 55, 82, 1410, 210, 1593, 1593, 92, 88
)
L40S: Final = GpuModel(
    "NVIDIA L40S", "l40s", 46_068, 579, 350, 26, 84, 2520, 210, 9001, 405, 128, 90, False
)
_MODELS: Final = (H100, H100, H200, A100, H100, H200, A100, L40S)
_DRIVERS: Final = ("535.129.03", "550.54.15", "570.86.15", "580.65.06")


@dataclass(frozen=True, slots=True)
class Host:
    """One machine, with one exporter."""

    index: int
    name: str
    model: GpuModel
    driver: str
    ambient_c: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; `index` counts over the fleet, `number` on its host."""

    index: int
    number: int
    uuid: str
    host: Host


class Fleet:
    """All hosts and GPUs of a configuration."""

    def __init__(self, config: SimulatorConfig) -> None:
        self.hosts = tuple(_host(config.seed, index) for index in range(config.hosts))
        self.gpus = tuple(
            Gpu(host.index * config.gpus + number, number, _uuid(config.seed, host, number), host)
            for host in self.hosts
            for number in range(config.gpus)
        )
        self.gpus_per_host = config.gpus
        self._seed = config.seed

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The order of GPUs in a dump: hosts are not contiguous in real ones."""
        return tuple(Draws(_ORDER, self._seed).shuffled(range(len(self.gpus))))

    def of_host(self, host: int) -> range:
        """The fleet's indices of a host's GPUs."""
        return range(host * self.gpus_per_host, (host + 1) * self.gpus_per_host)


def _host(seed: int, index: int) -> Host:
    draws = Draws(_FLEET, seed, index)
    # Models take turns before chance comes in, so that a small fleet is mixed as well.
    model = _MODELS[(index + mix(_FLEET, seed)) % len(_MODELS)]
    rack = "abcdefgh"[index // 16 % 8]
    name = f"{model.short}-{rack}{index // 128 + 1:02d}-{index + 1:03d}"
    return Host(index, name, model, draws.pick(_DRIVERS), draws.between(24, 31))


def _uuid(seed: int, host: Host, number: int) -> str:
    high, low = (mix(_FLEET, seed, host.index, number, half) for half in (1, 2))
    digits = f"{high:016x}{low:016x}"
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "GPU-" + "-".join(parts)
