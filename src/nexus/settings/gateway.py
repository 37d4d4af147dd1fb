# ruff: noqa: RUF009 - `option` returns a dataclass field, made once, not a shared default.
"""The gateway's settings: built once from flags, environment, file and defaults."""

import ipaddress
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from nexus.settings.broker import Shown, read_inputs
from nexus.settings.kinds import Choice, Duration, Maybe, Text, Whole
from nexus.settings.options import FlagValue, Source, option, options_of, resolve
from nexus.settings.place import Config, Place
from nexus.settings.sections import HOST, PORT, LogFormat, LogLevel

DEFAULT_PORT: Final = 8080
SECTION: Final = "gateway"


@dataclass(frozen=True, slots=True)
class WebAddress:
    """`http://host:port`, without a path."""

    def parse(self, raw: object) -> str:
        text = raw.strip().rstrip("/") if isinstance(raw, str) else ""
        try:
            parts = urlsplit(text)
            fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            fits = False
        if not fits or not text.isprintable() or parts.path or parts.query or parts.fragment:
            raise ValueError("an address such as http://127.0.0.1:9466")
        return text

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class GatewaySection:
    """What is served, where, and how much at once. Port 0 lets the system choose."""

    store: str = option(
        "store", Text("a store such as delta:///var/lib/nexus/tables"), "delta:./data/tables"
    )
    queue: str | None = option(
        "queue",
        Maybe(Text("a queue such as kafka://127.0.0.1:9092/gpu-telemetry")),
        None,
        environment=("MSG_QUEUE_URL",),
    )
    collector_url: str = option("collector_url", WebAddress(), "http://127.0.0.1:9466")
    host: str = option("host", HOST, "127.0.0.1")
    port: int = option("port", PORT, DEFAULT_PORT)
    workers: int = option("workers", Whole(1, 256), 4)
    waiting: int = option("waiting", Whole(0, 100_000), 512)
    timeout_ms: int = option("timeout", Duration(10), "30s")
    unknown_after_ms: int = option("unknown_after", Duration(1000), "2m")
    grace_ms: int = option("grace", Duration(0), "3s")
    log_level: LogLevel = option(
        "log_level", Choice(("debug", "info", "warning", "error")), "info", live=True
    )
    log_format: LogFormat = option("log_format", Choice(("auto", "human", "json")), "auto")

    @property
    def open_to_network(self) -> bool:
        """Whether the port can be reached from another machine."""
        if self.host.lower() == "localhost":
            return False
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return True


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Everything that `nexus gateway` can be told. `GatewaySettings()` is all defaults."""

    gateway: GatewaySection = field(default_factory=GatewaySection)
    file: Place | None = field(default=None, compare=False)
    provenance: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)

    def shown(self) -> Iterator[Shown]:
        """Every value as a user would write it, with where it came from."""
        for name, opt in options_of(GatewaySection).items():
            dotted = f"{SECTION}.{opt.key}"
            source = self.provenance.get(dotted, "default")
            yield Shown(dotted, opt.kind.show(getattr(self.gateway, name)), str(source))


def load_gateway_settings(
    config: Config | None = None,
    *,
    flags: Mapping[str, FlagValue] | None = None,
    environ: Mapping[str, str] | None = None,
) -> GatewaySettings:
    """Settings from `config` (or the file that NEXUS_CONFIG names), the environment and `flags`."""
    inputs = read_inputs(config, flags or {}, os.environ if environ is None else environ)
    values, sources = resolve(SECTION, GatewaySection, inputs)
    return GatewaySettings(GatewaySection(**values), inputs.file, MappingProxyType(sources))
