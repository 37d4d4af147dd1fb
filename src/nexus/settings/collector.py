# ruff: noqa: RUF009 - `option` returns a dataclass field, made once, not a shared default.
"""The collector's settings: built once from flags, environment, file and defaults.

The names that operators of such pipelines already use (MSG_QUEUE_URL, WORKERS, BATCH_SIZE,
POLL_TIMEOUT, PROCESSING_INTERVAL, COLLECTOR_ID, COLLECTOR_RANGE_START, COLLECTOR_RANGE_END) work
as they stand.
"""

import os
import re
import socket
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from nexus.settings.broker import Shown, read_inputs
from nexus.settings.collector_kinds import Pairs, PartitionSpans, Properties, StartAt, StoreList
from nexus.settings.errors import SettingsError
from nexus.settings.kinds import Choice, Directory, Duration, Flag, Maybe, Size, Text, Whole
from nexus.settings.options import FlagValue, Source, Strength, option, options_of, resolve
from nexus.settings.place import Config, Place
from nexus.settings.sections import HOST, PORT, ClusterSection, LogFormat, LogLevel
from nexus.settings.units import UNLIMITED

DEFAULT_HTTP_PORT: Final = 9466
_LOCAL: Final = re.compile(r"local(?:\[(\*|[1-9]\d{0,3})(?:,\s*\d+)?\])?")
LAST: Final = 999_999  # the highest number that a partition can have
RETAINED: Final = ("readings", "quarantine", "rollup_1m", "rollup_1h")
_KEPT: Final = Duration(86_400_000, unlimited=True)


@dataclass(frozen=True, slots=True)
class CollectorSection:
    """What is collected, where it is stored, and how Spark does it."""

    queue: str = option(
        "queue",
        Text("a queue such as kafka://127.0.0.1:9092/gpu-telemetry"),
        "kafka://127.0.0.1:9092/gpu-telemetry",
        environment=("MSG_QUEUE_URL",),
    )
    stores: tuple[str, ...] = option("store", StoreList(), "delta:./data/tables")
    collector_id: str | None = option(
        "collector_id", Maybe(Text("a name")), None, environment=("COLLECTOR_ID",)
    )
    group: str = option("group", Text("a consumer group's name"), "nexus-collector")
    start: str = option("from", StartAt(), "earliest")
    partitions: str = option("partitions", PartitionSpans(), "")
    range_start: int | None = option(
        "range_start", Maybe(Whole(0, LAST)), None, environment=("COLLECTOR_RANGE_START",)
    )
    range_end: int | None = option(
        "range_end", Maybe(Whole(0, LAST)), None, environment=("COLLECTOR_RANGE_END",)
    )
    on_gone: Literal["fail", "skip"] = option("on_gone", Choice(("fail", "skip")), "fail")
    trigger_ms: int = option("trigger", Duration(0), "2s", environment=("PROCESSING_INTERVAL",))
    available_now: bool = option("available_now", Flag(), False)
    batch_size: int = option(
        "batch_size", Whole(1, 100_000_000), 1_500_000, environment=("BATCH_SIZE",)
    )
    batch_bytes: int = option("batch_bytes", Size(1 << 20), "256MB")
    poll_timeout_ms: int = option(
        "poll_timeout", Duration(100), "15s", environment=("POLL_TIMEOUT",)
    )
    master: str | None = option(
        "master", Maybe(Text("a master such as local[2] or spark://host:7077")), None
    )
    workers: int = option("workers", Whole(0, 10_000), 0, environment=("WORKERS",))
    memory_bytes: int = option("memory", Size(256 << 20), "1GB")
    python: str | None = option("python", Maybe(Text("an interpreter's path")), None)
    conf: Pairs = option("conf", Properties(), ())
    fast_start: bool = option("fast_start", Flag(), True)
    cache_dir: Path = option("cache_dir", Directory(), "~/.cache/nexus")
    data_dir: Path = option("data_dir", Directory(), "./data/collector")
    derive: bool = option("derive", Flag(), True)
    derive_interval_ms: int = option("derive_interval", Duration(100), "10s")
    grace_ms: int = option("grace", Duration(0), "30s")
    maintain_interval_ms: int = option("maintain_interval", Duration(1000, unlimited=True), "15m")
    retention_readings_ms: int = option("retention_readings", _KEPT, "30d", live=True)
    retention_quarantine_ms: int = option("retention_quarantine", _KEPT, "30d", live=True)
    retention_rollup_1m_ms: int = option("retention_rollup_1m", _KEPT, "90d", live=True)
    retention_rollup_1h_ms: int = option("retention_rollup_1h", _KEPT, "730d", live=True)
    stale_after_ms: int = option("stale_after", Duration(1000), "1m")
    http_host: str = option("http_host", HOST, "127.0.0.1")
    http_port: int = option("http_port", PORT, DEFAULT_HTTP_PORT)
    log_level: LogLevel = option(
        "log_level", Choice(("debug", "info", "warning", "error")), "info", live=True
    )
    log_format: LogFormat = option("log_format", Choice(("auto", "human", "json")), "auto")

    @property
    def name(self) -> str:
        """Who this collector is: as told, else this machine's name."""
        return self.collector_id or socket.gethostname()

    @property
    def cores(self) -> int:
        """How many tasks run at once: as told, else one for each core of this machine."""
        local = _LOCAL.fullmatch(self.master or "")
        if local is not None:
            told = local[1] or "1"
            return len(os.sched_getaffinity(0)) if told == "*" else int(told)
        return self.workers or len(os.sched_getaffinity(0))

    @property
    def retention(self) -> dict[str, timedelta]:
        """How long each table's days are kept; a table without an end is left out."""
        kept = {name: getattr(self, f"retention_{name}_ms") for name in RETAINED}
        return {name: timedelta(milliseconds=ms) for name, ms in kept.items() if ms != UNLIMITED}


SECTIONS: Final[Mapping[str, type]] = {"collector": CollectorSection, "cluster": ClusterSection}


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """Everything that `nexus collector` can be told. `CollectorSettings()` is all defaults."""

    collector: CollectorSection = field(default_factory=CollectorSection)
    cluster: ClusterSection = field(default_factory=ClusterSection)
    file: Place | None = field(default=None, compare=False)
    provenance: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)

    def is_given(self, dotted: str) -> bool:
        """Whether somebody set the option."""
        source = self.provenance.get(dotted)
        return source is not None and source.strength is not Strength.DEFAULT

    def shown(self) -> Iterator[Shown]:
        """Every value as a user would write it, with where it came from."""
        for section, cls in SECTIONS.items():
            values = getattr(self, section)
            for name, opt in options_of(cls).items():
                dotted = f"{section}.{opt.key}"
                source = self.provenance.get(dotted, "default")
                yield Shown(dotted, opt.kind.show(getattr(values, name)), str(source))


def load_collector_settings(
    config: Config | None = None,
    *,
    flags: Mapping[str, FlagValue] | None = None,
    environ: Mapping[str, str] | None = None,
) -> CollectorSettings:
    """Settings from `config` (or the file that NEXUS_CONFIG names), the environment and `flags`."""
    inputs = read_inputs(config, flags or {}, os.environ if environ is None else environ)
    built: dict[str, Any] = {}
    provenance: dict[str, Source] = {}
    for section, cls in SECTIONS.items():
        values, sources = resolve(section, cls, inputs)
        provenance |= sources
        if section == "collector":
            _choose_master(values, sources)
            _choose_partitions(values, sources)
        built[section] = cls(**values)
    return CollectorSettings(**built, file=inputs.file, provenance=MappingProxyType(provenance))


def _choose_master(values: MutableMapping[str, Any], sources: Mapping[str, Source]) -> None:
    """`workers` beside `master: local[N]` say the same thing: the stronger source decides."""
    if not values.get("workers") or not str(values.get("master") or "").startswith("local"):
        return
    workers, master = sources["collector.workers"], sources["collector.master"]
    if workers.strength == master.strength:
        raise SettingsError(
            f"{workers.where}: collector.workers: contradicts collector.master"
            f" {values['master']}; local[{values['workers']}] says it in one"
        )
    weaker = "master" if workers.strength > master.strength else "workers"
    values[weaker] = None if weaker == "master" else 0


def _choose_partitions(values: MutableMapping[str, Any], sources: Mapping[str, Source]) -> None:
    """`range_start` to `range_end`, both included, say what `partitions` says of one span."""
    given = [name for name in ("range_start", "range_end") if values.get(name) is not None]
    if not given:
        return
    where = max((sources[f"collector.{name}"] for name in given), key=lambda s: s.strength)
    told = sources["collector.partitions"]
    if values.get("partitions") and told.strength > where.strength:
        return
    if values.get("partitions") and told.strength == where.strength:
        raise SettingsError(
            f"{told.where}: collector.partitions: contradicts {given[0]}; say one of the two"
        )
    first, last = values.get("range_start"), values.get("range_end")
    if first is None or last is None:
        raise SettingsError(f"{where.where}: collector.{given[0]}: needs the range's other end")
    if last < first:
        raise SettingsError(
            f"{where.where}: collector.{given[-1]}: the range from {first} to {last} is empty"
        )
    values["partitions"] = f"{first}-{last}" if last > first else str(first)
