# ruff: noqa: RUF009 - `option` returns a dataclass field, made once, not a shared default.
"""The settings of `nexus up`: its own, and those of every part that it starts.

A part's section counts here as it does for the part alone: `broker.port` is where the broker
listens. What belongs together is made to fit: one data directory, one queue, one store.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from nexus.settings.broker import BrokerSettings, Shown, load_broker_settings, read_inputs
from nexus.settings.collector import CollectorSettings, load_collector_settings
from nexus.settings.errors import SettingsError
from nexus.settings.gateway import GatewaySettings, load_gateway_settings
from nexus.settings.kinds import Directory, Duration, Flag, Maybe, Size, Text, Whole
from nexus.settings.options import FlagValue, Source, Strength, option, options_of, resolve
from nexus.settings.place import Config, Place
from nexus.settings.proxy import ProxySettings, load_proxy_settings
from nexus.settings.sections import PORT
from nexus.settings.streamer import StreamerSettings, load_streamer_settings
from nexus.settings.streamer_kinds import SourceList, SourceUrl
from nexus.settings.up_kinds import OWN_BROKER, OWN_ETCD, OWN_TABLES, QueueChoice, StoreChoices

SECTION: Final = "up"
DEFAULT_ETCD_PORT: Final = 2379
DEFAULT_PROXY_PORT: Final = 8088
DEFAULT_FLEET: Final = "sim://?hosts=4&gpus=8&seed=1"


@dataclass(frozen=True, slots=True)
class UpSection:
    """Which parts run, on what, and how they are looked after."""

    data_dir: Path = option("data_dir", Directory(), "./data", environment=("NEXUS_DATA",))
    sources: tuple[str, ...] = option("source", SourceList(), ())
    queue: str = option("queue", QueueChoice(), OWN_BROKER)
    stores: tuple[str, ...] = option("store", StoreChoices(), ())
    etcd_endpoints: str | None = option(
        "etcd_endpoints",
        Maybe(Text("endpoints such as 127.0.0.1:2379")),
        None,
        environment=("ETCD_ENDPOINTS",),
    )
    etcd_bin: str | None = option(
        "etcd_bin", Maybe(Text("etcd's path")), None, environment=("ETCD_BIN",)
    )
    etcd_port: int = option("etcd_port", PORT, DEFAULT_ETCD_PORT)
    etcd_quota_bytes: int = option("etcd_quota", Size(64 << 20, 64 << 30), "4GB")
    fleet: str = option("fleet", SourceUrl(), DEFAULT_FLEET, environment=("NEXUS_FLEET",))
    collector: bool = option("collector", Flag(), True)
    gateway: bool = option("gateway", Flag(), True)
    proxy: bool = option("proxy", Flag(), False)
    proxy_port: int = option("proxy_port", PORT, DEFAULT_PROXY_PORT)
    demo_seconds: int | None = option(
        "demo_seconds", Maybe(Whole(1, 86_400)), None, environment=("NEXUS_DEMO_SECONDS",)
    )
    stop_timeout_ms: int = option("stop_timeout", Duration(1_000, 600_000), "15s")
    restart_delay_ms: int = option("restart_delay", Duration(10, 600_000), "500ms")
    restart_delay_max_ms: int = option("restart_delay_max", Duration(10, 3_600_000), "30s")
    steady_after_ms: int = option("steady_after", Duration(100), "1m")
    log_bytes: int = option("log_size", Size(256 << 10, 1 << 40), "10MB")


@dataclass(frozen=True, slots=True)
class UpSettings:
    """Everything that `nexus up` can be told."""

    up: UpSection = field(default_factory=UpSection)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    streamer: StreamerSettings = field(default_factory=StreamerSettings)
    collector: CollectorSettings = field(default_factory=CollectorSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    proxy: ProxySettings = field(default_factory=ProxySettings)
    file: Place | None = field(default=None, compare=False)
    provenance: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)

    def shown(self) -> Iterator[Shown]:
        """Every value of the section `up` as a user would write it, with where it came from."""
        for name, opt in options_of(UpSection).items():
            dotted = f"{SECTION}.{opt.key}"
            source = self.provenance.get(dotted, "default")
            yield Shown(dotted, opt.kind.show(getattr(self.up, name)), str(source))

    # Where the parts keep their things: as their own sections say, else below one directory.

    @property
    def broker_dir(self) -> Path:
        told = _is_given(self.broker.provenance, "broker.data_dir")
        return self.broker.broker.data_dir if told else self.up.data_dir / "broker"

    @property
    def streamer_dir(self) -> Path:
        told = _is_given(self.streamer.provenance, "streamer.state_dir")
        return self.streamer.streamer.state_dir if told else self.up.data_dir / "streamer"

    @property
    def collector_dir(self) -> Path:
        told = _is_given(self.collector.provenance, "collector.data_dir")
        return self.collector.collector.data_dir if told else self.up.data_dir / "collector"

    @property
    def etcd_dir(self) -> Path:
        return self.up.data_dir / "etcd"

    @property
    def own_broker(self) -> bool:
        """Whether the queue is a broker that is started here."""
        return self.up.queue == OWN_BROKER

    @property
    def own_etcd(self) -> bool:
        """Whether an etcd is started here: it is wanted, and nobody says where one is."""
        wanted = OWN_ETCD in (self.up.queue, *self.up.stores)
        return wanted and not self.up.etcd_endpoints and not self.up.queue.startswith("etcd://")

    def stores(self, etcd: str = "") -> tuple[str, ...]:
        """The stores' addresses, where `etcd` is that of the etcd that is meant by its name."""
        named = {OWN_TABLES: f"delta:{self.up.data_dir / 'tables'}", OWN_ETCD: etcd}
        if self.up.stores:
            return tuple(named.get(store, store) for store in self.up.stores)
        if _is_given(self.collector.provenance, "collector.store"):
            return self.collector.collector.stores
        return (named[OWN_TABLES],)

    @property
    def log_dir(self) -> Path:
        return self.up.data_dir / "logs"


def load_up_settings(
    config: Config | None = None,
    *,
    flags: Mapping[str, FlagValue] | None = None,
    environ: Mapping[str, str] | None = None,
) -> UpSettings:
    """Settings from `config` (or the file that NEXUS_CONFIG names), the environment and `flags`."""
    variables = os.environ if environ is None else environ
    given = flags or {}
    inputs = read_inputs(config, given, variables)
    values, sources = resolve(SECTION, UpSection, inputs)
    section = UpSection(**values)
    _check(section, sources)
    return UpSettings(
        section,
        load_broker_settings(config, flags=given, environ=variables),
        load_streamer_settings(config, flags=given, environ=variables),
        load_collector_settings(config, flags=given, environ=variables),
        load_gateway_settings(config, flags=given, environ=variables),
        load_proxy_settings(config, flags=given, environ=variables),
        file=inputs.file,
        provenance=MappingProxyType(sources),
    )


def _check(section: UpSection, sources: Mapping[str, Source]) -> None:
    if section.proxy and section.queue.startswith("etcd"):
        where = sources[f"{SECTION}.proxy"].where
        raise SettingsError(
            f"{where}: {SECTION}.proxy: the proxy needs a broker, and the queue is {section.queue}"
        )


def _is_given(provenance: Mapping[str, Source], dotted: str) -> bool:
    source = provenance.get(dotted)
    return source is not None and source.strength is not Strength.DEFAULT
