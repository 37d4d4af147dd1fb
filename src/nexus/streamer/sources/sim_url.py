"""`sim://?hosts=4&gpus=8&seed=1…`: the address of a simulated fleet, and every choice in it.

hosts, gpus (a host), seed, interval (`1s`), start (a time, or `now`), faults (`all`, `none` or
kinds with commas), fault_period (`10m`), speed (`1`, `60`, `max`), duration (`1h`; without end if
not given), catchup (`10m`: how much of a pause is made up for after a restart).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

from nexus.settings.units import format_duration, parse_duration_ms
from nexus.streamer.simulator.config import SimulatorConfig, SimulatorError, parse_faults

T = TypeVar("T")

_NAMES: Final = (
    "hosts",
    "gpus",
    "seed",
    "interval",
    "start",
    "faults",
    "fault_period",
    "speed",
    "duration",
    "catchup",
)
_CATCHUP: Final = "10m"


@dataclass(frozen=True, slots=True)
class SimPlan:
    """What an address says. `aligned` fleets live in the present: a tick is given when it is."""

    config: SimulatorConfig
    aligned: bool
    speed: float | None  # None: as fast as it goes
    ticks: int | None
    catchup_ms: int

    @property
    def stream(self) -> str:
        """What decides the values: another fleet is another stream."""
        config = self.config
        faults = ",".join(config.faults) or "none"
        start = "now" if self.aligned else str(config.start_ms)
        return (
            f"sim:hosts={config.hosts}&gpus={config.gpus}&seed={config.seed}"
            f"&interval={format_duration(config.interval_ms)}&start={start}&faults={faults}"
            f"&fault_period={format_duration(config.fault_period_ms)}"
        )


def parse_sim_url(url: str, interval_ms: int) -> SimPlan:
    """The plan of an address; `interval_ms` holds where the address has none."""
    given = _parameters(url)
    speed = _value(given, "speed", "1", _speed)
    start = given.get("start", "now" if speed == 1.0 else "")
    config = SimulatorConfig(
        hosts=_value(given, "hosts", "4", int),
        gpus=_value(given, "gpus", "8", int),
        seed=_value(given, "seed", "1", int),
        interval_ms=_value(given, "interval", f"{interval_ms}ms", parse_duration_ms),
        faults=parse_faults(given.get("faults", "all")),
        fault_period_ms=_value(given, "fault_period", "10m", parse_duration_ms),
        **({"start_ms": parse_start(start)} if start not in ("", "now") else {}),
    )
    duration_ms = _value(given, "duration", "", parse_duration_ms) if "duration" in given else None
    return SimPlan(
        config,
        aligned=start == "now",
        speed=speed,
        ticks=None if duration_ms is None else -(-duration_ms // config.interval_ms),
        catchup_ms=_value(given, "catchup", _CATCHUP, parse_duration_ms),
    )


def parse_start(text: str) -> int:
    """Milliseconds since 1970 of a time such as 2025-07-18T20:42:34Z; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SimulatorError(
            f"start: found {text!r}, expected a time such as 2025-07-18T20:42:34Z"
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000)


def _parameters(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    unknown = [name for name, _ in pairs if name not in _NAMES]
    if parts.netloc or parts.path.strip("/") or unknown:
        found = unknown[0] if unknown else parts.netloc + parts.path
        raise SimulatorError(f"{url}: unknown {found!r}; known are {', '.join(_NAMES)}")
    return dict(pairs)


def _value(given: dict[str, str], name: str, default: str, parse: Callable[[str], T]) -> T:
    text = given.get(name, default)
    try:
        return parse(text)
    except ValueError as error:
        raise SimulatorError(f"sim://?{name}={text}: {error}") from None


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    speed = float(text.removesuffix("x"))
    if not isfinite(speed) or speed <= 0:
        raise ValueError("a speed is max or a number over 0, such as 1 or 60")
    return speed
