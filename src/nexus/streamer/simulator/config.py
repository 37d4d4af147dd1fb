"""What a simulated fleet is made of: sizes, seed, times and the faults that may happen."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from nexus.errors import NexusError

FAULT_KINDS: Final = (
    "xid",  # a burst of driver errors; the job on the GPU stops for a while
    "throttle",  # cooling fails: hot, then slowed down by the hardware
    "ecc",  # memory errors, one of them uncorrectable, and a remapped row
    "straggler",  # one GPU of a job slower than its peers, without a reason bit
    "silent",  # a host's exporter stops answering
    "upgrade",  # a host's exporter starts to use new names and units
    "reset",  # a GPU is reset: its counters begin at zero again
    "replays",  # a bad PCIe link
    "blank",  # profiling is paused on a host: its values become blanks
)
HOSTS_MAX: Final = 20_000
GPUS_MAX: Final = 16
FLEET_MAX: Final = 20_000
INTERVAL_MS_MAX: Final = 3_600_000
FAULT_PERIOD_MS: Final = 600_000
FAULT_PERIOD_MS_MIN: Final = 10_000


class SimulatorError(NexusError):
    """Raised when a simulated fleet is asked for that cannot be made."""

    exit_code: Final = 2


@dataclass(frozen=True, slots=True)
class SimulatorConfig:
    """Everything that decides a fleet's readings; equal configurations give equal bytes."""

    hosts: int = 4
    gpus: int = 8  # on each host
    seed: int = 1
    interval_ms: int = 1_000
    start_ms: int = 1_735_689_600_000  # 2025-01-01T00:00:00Z, since 1970
    faults: tuple[str, ...] = FAULT_KINDS
    fault_period_ms: int = FAULT_PERIOD_MS  # in each, every kind strikes at least once

    def __post_init__(self) -> None:
        _check("hosts", self.hosts, 1, HOSTS_MAX)
        _check("gpus", self.gpus, 1, GPUS_MAX)
        _check("GPUs in all", self.hosts * self.gpus, 1, FLEET_MAX)
        _check("seed", self.seed, 0, (1 << 63) - 1)
        _check("interval in ms", self.interval_ms, 1, INTERVAL_MS_MAX)
        _check("fault period in ms", self.fault_period_ms, FAULT_PERIOD_MS_MIN, 1 << 40)
        unknown = [kind for kind in self.faults if kind not in FAULT_KINDS]
        if unknown:
            known = ", ".join(FAULT_KINDS)
            raise SimulatorError(f"unknown fault {unknown[0]!r}: known are all, none, {known}")

    def time_ms(self, tick: int) -> int:
        """When a tick is, since 1970."""
        return self.start_ms + tick * self.interval_ms


def parse_faults(text: str) -> tuple[str, ...]:
    """`all`, `none` or kinds with commas between; in one order however they are given."""
    named = {kind.strip() for kind in text.split(",") if kind.strip()}
    if named <= {"none"}:
        return ()
    if "all" in named:
        return FAULT_KINDS
    return (*(kind for kind in FAULT_KINDS if kind in named), *_unknown(named))


def _unknown(named: Iterable[str]) -> list[str]:
    """Left in, so that the configuration refuses them by name."""
    return sorted(kind for kind in named if kind not in FAULT_KINDS)


def _check(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise SimulatorError(f"{what}: found {value}, expected {low} to {high}")
