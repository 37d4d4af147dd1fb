# ruff: noqa: RUF009 - `option` returns a dataclass field, made once, not a shared default.
"""The proxy's settings: built once from flags, environment, file and defaults.

The names that operators of such proxies already use (PORT, BROKER_SERVICE, BROKER_COUNT,
VIRTUAL_NODES, MAX_PARTITIONS, HEALTH_INTERVAL_SECONDS) work as they stand.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from nexus.settings.broker import Shown, read_inputs
from nexus.settings.errors import SettingsError
from nexus.settings.kinds import (
    Choice,
    Duration,
    HostPort,
    Maybe,
    Size,
    Text,
    TextList,
    Whole,
    split_host_port,
)
from nexus.settings.options import FlagValue, Source, option, options_of, resolve
from nexus.settings.place import Config, Place
from nexus.settings.sections import HOST, PORT, LogFormat, LogLevel, is_loopback
from nexus.settings.streamer_kinds import Lifetime

DEFAULT_PORT: Final = 8080
DEFAULT_BROKER_PORT: Final = 9092
SECTION: Final = "proxy"
ProxyMode = Literal["cluster", "static"]


@dataclass(frozen=True, slots=True)
class ProxySection:
    """Where clients connect, where the brokers are, and how much may wait at once."""

    host: str = option("host", HOST, "127.0.0.1")
    port: int = option("port", PORT, DEFAULT_PORT, environment=("PORT",))
    brokers: tuple[str, ...] = option(
        "brokers",
        TextList(HostPort(), 'a list such as ["broker-1:9092", "broker-2:9092"]'),
        ("127.0.0.1:9092",),
        environment=("NEXUS_BOOTSTRAP",),
    )
    mode: ProxyMode = option("mode", Choice(("cluster", "static")), "cluster")
    broker_service: str | None = option(
        "broker_service",
        Maybe(Text("a service such as msg-queue or msg-queue.default.svc:9092")),
        None,
        environment=("BROKER_SERVICE",),
    )
    broker_count: int = option("broker_count", Whole(1, 1_000), 1, environment=("BROKER_COUNT",))
    virtual_nodes: int = option(
        "virtual_nodes", Whole(1, 10_000), 150, environment=("VIRTUAL_NODES",)
    )
    max_partitions: int = option(
        "max_partitions", Whole(1, 10_000), 12, environment=("MAX_PARTITIONS",)
    )
    health_interval_s: int = option(
        "health_interval", Lifetime(1, 3600), "5s", environment=("HEALTH_INTERVAL_SECONDS",)
    )
    request_timeout_ms: int = option("request_timeout", Duration(10), "30s")
    connect_timeout_ms: int = option("connect_timeout", Duration(10), "2s")
    body_bytes: int = option("body_size", Size(1024, 1 << 30), "16MB")
    in_flight_bytes: int = option("in_flight_size", Size(1024, 1 << 40), "64MB")
    connections: int = option("connections", Whole(1, 1_000_000), 10_000)
    origins: tuple[str, ...] = option(
        "origins", TextList(Text(), 'a list such as ["https://pages.example"]'), ()
    )
    heartbeat_ms: int = option("heartbeat", Duration(100), "10s")
    stalled_ms: int = option("stalled", Duration(100), "60s")
    grace_ms: int = option("grace", Duration(0), "3s")
    log_level: LogLevel = option(
        "log_level", Choice(("debug", "info", "warning", "error")), "info", live=True
    )
    log_format: LogFormat = option("log_format", Choice(("auto", "human", "json")), "auto")

    @property
    def is_static(self) -> bool:
        """Whether brokers are a fixed list, each partition on one of them."""
        return self.mode == "static" or self.broker_service is not None

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The brokers to ask first."""
        if self.broker_service is None:
            return tuple(split_host_port(broker) for broker in self.brokers)
        service, _, port = self.broker_service.partition(":")
        first = service.partition(".")[0]
        number = int(port) if port else DEFAULT_BROKER_PORT
        return tuple((f"{first}-{i}.{service}", number) for i in range(self.broker_count))

    @property
    def open_to_network(self) -> bool:
        """Whether the port can be reached from another machine."""
        return not is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """Everything that `nexus proxy` can be told. `ProxySettings()` is all defaults."""

    proxy: ProxySection = field(default_factory=ProxySection)
    file: Place | None = field(default=None, compare=False)
    provenance: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)

    def shown(self) -> Iterator[Shown]:
        """Every value as a user would write it, with where it came from."""
        for name, opt in options_of(ProxySection).items():
            dotted = f"{SECTION}.{opt.key}"
            source = self.provenance.get(dotted, "default")
            yield Shown(dotted, opt.kind.show(getattr(self.proxy, name)), str(source))


def load_proxy_settings(
    config: Config | None = None,
    *,
    flags: Mapping[str, FlagValue] | None = None,
    environ: Mapping[str, str] | None = None,
) -> ProxySettings:
    """Settings from `config` (or the file that NEXUS_CONFIG names), the environment and `flags`."""
    inputs = read_inputs(config, flags or {}, os.environ if environ is None else environ)
    values, sources = resolve(SECTION, ProxySection, inputs)
    section = ProxySection(**values)
    _check(section, sources)
    return ProxySettings(section, inputs.file, MappingProxyType(sources))


def _check(section: ProxySection, sources: Mapping[str, Source]) -> None:
    service = section.broker_service
    if service is None:
        return
    name, separator, port = service.partition(":")
    if not name or not all(name.split(".")) or (separator and not port.isdecimal()):
        where = sources[f"{SECTION}.broker_service"].where
        raise SettingsError(
            f'{where}: {SECTION}.broker_service: found "{service}", expected a service such as'
            " msg-queue or msg-queue.default.svc:9092"
        )
