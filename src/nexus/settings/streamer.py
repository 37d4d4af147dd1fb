# ruff: noqa: RUF009 - `option` returns a dataclass field, made once, not a shared default.
"""The streamer's settings: built once from flags, environment, file and defaults.

The names that operators of such pipelines already use (CSV_FILE, BATCH_SIZE, STREAM_INTERVAL,
LOOP_MODE, CLUSTER_ID, MSG_QUEUE_URL, MESSAGE_TTL) work as they stand.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from nexus.settings.broker import Shown, read_inputs
from nexus.settings.errors import SettingsError
from nexus.settings.kinds import Choice, Directory, Duration, Flag, Maybe, Size, Text, Whole
from nexus.settings.options import FlagValue, Source, Strength, option, options_of, resolve
from nexus.settings.place import Config, Place
from nexus.settings.producer import ProducerSettings, producer_settings
from nexus.settings.sections import (
    HOST,
    PORT,
    ClusterSection,
    LogFormat,
    LogLevel,
    PerformanceSection,
)
from nexus.settings.streamer_kinds import Lifetime, Share, SourceUrl, Speed

MESSAGE_READINGS_MAX: Final = 10_000
DEFAULT_INTERVAL_MS: Final = 3_000
DEFAULT_HTTP_PORT: Final = 9465


@dataclass(frozen=True, slots=True)
class StreamerSection:
    """What is read, how fast, and where it goes.

    `batch_size` readings are sent together: in one message, and, of files, in every `interval`.
    """

    source: str | None = option("source", Maybe(SourceUrl()), None, environment=("CSV_FILE",))
    queue: str = option(
        "queue",
        Text("a queue such as kafka://127.0.0.1:9092/gpu-telemetry or etcd://127.0.0.1:2379"),
        "kafka://127.0.0.1:9092/gpu-telemetry",
        environment=("MSG_QUEUE_URL",),
    )
    rate: int = option("rate", Whole(0, 1_000_000_000), 0, live=True)
    speed: float | None = option("speed", Maybe(Speed()), None, live=True)
    interval_ms: int | None = option(
        "interval", Maybe(Duration(10)), None, environment=("STREAM_INTERVAL",)
    )
    batch_size: int = option(
        "batch_size", Whole(1, 1_000_000), MESSAGE_READINGS_MAX, environment=("BATCH_SIZE",)
    )
    loop: bool = option("loop", Flag(), False, environment=("LOOP_MODE",))
    restamp: bool | None = option("restamp", Maybe(Flag()), None)
    follow: bool = option("follow", Flag(), False)
    encoding: Literal["arrow", "json"] = option("encoding", Choice(("arrow", "json")), "arrow")
    partitioner: str = option(
        "partitioner", Text("murmur2, round-robin or module:function"), "murmur2"
    )
    partitions: int = option("partitions", Whole(1, 10_000), 12)
    # Of messages in etcd that nobody takes; the queue's address can say it too (?ttl=24h).
    message_ttl_s: int = option("message_ttl", Lifetime(), "24h", environment=("MESSAGE_TTL",))
    shard: tuple[int, int] = option("shard", Share(), "0/1")
    timeout_ms: int = option("timeout", Duration(10), "5s")
    state_dir: Path = option("state_dir", Directory(), "./data/streamer")
    spool_bytes: int = option("spool_size", Size(1 << 20), "1GB")
    in_flight_bytes: int = option("in_flight_size", Size(1 << 20, 1 << 30), "32MB")
    away_after_ms: int = option("away_after", Duration(100), "3s")
    grace_ms: int = option("grace", Duration(0), "5s")
    http_host: str = option("http_host", HOST, "127.0.0.1")
    http_port: int = option("http_port", PORT, DEFAULT_HTTP_PORT)
    upload_bytes: int = option("upload_size", Size(1024), "100MB")
    log_level: LogLevel = option(
        "log_level", Choice(("debug", "info", "warning", "error")), "info", live=True
    )
    log_format: LogFormat = option("log_format", Choice(("auto", "human", "json")), "auto")

    @property
    def restamps(self) -> bool:
        """Whether readings get the time of sending: when told so, else when looping."""
        return self.loop if self.restamp is None else self.restamp

    @property
    def interval_s(self) -> float:
        """Between two samples of a live source, and two passes of a loop."""
        return (DEFAULT_INTERVAL_MS if self.interval_ms is None else self.interval_ms) / 1000


SECTIONS: Final[Mapping[str, type]] = {
    "streamer": StreamerSection,
    "cluster": ClusterSection,
    "performance": PerformanceSection,
}


@dataclass(frozen=True, slots=True)
class StreamerSettings:
    """Everything that `nexus streamer` can be told. `StreamerSettings()` is all defaults."""

    streamer: StreamerSection = field(default_factory=StreamerSection)
    cluster: ClusterSection = field(default_factory=ClusterSection)
    performance: PerformanceSection = field(default_factory=PerformanceSection)
    file: Place | None = field(default=None, compare=False)
    provenance: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)

    @property
    def producer(self) -> ProducerSettings:
        """How messages are gathered: the part of `performance` that counts here."""
        return producer_settings(self.performance, self.provenance)

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


def load_streamer_settings(
    config: Config | None = None,
    *,
    flags: Mapping[str, FlagValue] | None = None,
    environ: Mapping[str, str] | None = None,
) -> StreamerSettings:
    """Settings from `config` (or the file that NEXUS_CONFIG names), the environment and `flags`."""
    inputs = read_inputs(config, flags or {}, os.environ if environ is None else environ)
    built: dict[str, Any] = {}
    provenance: dict[str, Source] = {}
    for section, cls in SECTIONS.items():
        values, sources = resolve(section, cls, inputs)
        provenance |= sources
        built[section] = cls(**values)
    settings = StreamerSettings(**built, file=inputs.file, provenance=MappingProxyType(provenance))
    _check(settings)
    return settings


def _check(settings: StreamerSettings) -> None:
    """Refuses combinations that contradict each other, at the stronger of the two."""
    own = settings.streamer
    if own.follow and own.loop:
        why = "a loop never waits for a file to grow"
        raise _contradiction(settings, "streamer.follow", "streamer.loop", why)
    if own.rate and own.speed is not None:
        why = "one of them decides the pace"
        raise _contradiction(settings, "streamer.rate", "streamer.speed", why)
    if (settings.producer.linger_ms or 0) >= own.away_after_ms:
        why = "a queue that is sent nothing yet would count as away"
        raise _contradiction(settings, "performance.linger_time", "streamer.away_after", why)


def _contradiction(settings: StreamerSettings, first: str, second: str, why: str) -> SettingsError:
    sources = settings.provenance
    if sources[second].strength > sources[first].strength:
        first, second = second, first
    return SettingsError(f"{sources[first].where}: {first}: contradicts {second}; {why}")
