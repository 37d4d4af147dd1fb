"""What `exporter://host:9400,host:9400/path?interval=15s` asks for, checked before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from nexus.errors import NexusError
from nexus.settings.units import parse_duration_ms, parse_size
from nexus.streamer.sources.port import SourceOptions

SCHEME: Final = "exporter"
DEFAULT_PORT: Final = 9400
DEFAULT_PATH: Final = "/metrics"
BODY_MAX: Final = 4 << 20  # a page of eight GPUs is 100 KB, of 56 MIG instances under 2 MB
INTERVAL_S_MIN: Final = 0.1
OPTIONS: Final = ("interval", "timeout", "body_max")


class ExporterUrlError(NexusError):
    """Raised when an exporter:// address names no endpoint or has an option that is none."""


@dataclass(frozen=True, slots=True)
class Target:
    """One endpoint; `instance` is host:port, as Prometheus names a scraped target.

    The url may have a user and a password in it, `page` (host:port/path) is fit to be shown.
    """

    url: str
    instance: str
    host: str
    page: str


@dataclass(frozen=True, slots=True)
class ScrapePlan:
    """What to scrape, how often, and within which bounds."""

    targets: tuple[Target, ...]
    interval_s: float
    timeout_s: float
    body_max: int = BODY_MAX


def parse_exporter_url(url: str, options: SourceOptions) -> ScrapePlan:
    """Read the address; this shard's endpoints only. The address is stronger than the options."""
    address, query = _opened(url)
    # A path after the last host is everyone's: with one host or with many it reads the same.
    names = [name.strip() for name in address.split(",") if name.strip()]
    if not names:
        raise ExporterUrlError(f"no endpoint in {url!r}: write exporter://host:9400,host:9400")
    shared = _path_of(names[-1]) if "://" not in names[-1] else ""
    targets = {target.url: target for target in (_target(name, shared) for name in names)}
    interval_s = _seconds(query, "interval", options.interval_s)
    if interval_s < INTERVAL_S_MIN:
        raise ExporterUrlError(f"interval={query['interval']} is under {INTERVAL_S_MIN:g} s")
    return ScrapePlan(
        targets=tuple(t for t in targets.values() if options.shard.owns(t.instance)),
        interval_s=interval_s,
        timeout_s=_seconds(query, "timeout", options.timeout_s),
        body_max=_body_max(query),
    )


def _opened(url: str) -> tuple[str, dict[str, str]]:
    scheme, found, rest = url.partition("://")
    if not found or scheme != SCHEME:
        raise ExporterUrlError(f"not an exporter address: {url!r}")
    address, _, query = rest.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(given.keys() - set(OPTIONS))
    if unknown:
        raise ExporterUrlError(
            f"unknown option {', '.join(unknown)} in {url!r}; there are {', '.join(OPTIONS)}"
        )
    return address, given


def _path_of(name: str) -> str:
    _, slash, path = name.partition("/")
    return slash + path


def _target(name: str, shared_path: str) -> Target:
    try:
        parts = urlsplit(name if "://" in name else f"http://{name}")
        port = parts.port or (DEFAULT_PORT if "://" not in name else _usual_port(parts))
    except ValueError as error:
        raise ExporterUrlError(f"not an endpoint: {name!r} ({error})") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ExporterUrlError(f"not an endpoint: {name!r}")
    path = parts.path if parts.path not in ("", "/") else shared_path
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    user, at, _ = parts.netloc.rpartition("@")
    instance = f"{host}:{port}"
    page = instance + (path if len(path) > 1 else DEFAULT_PATH)
    return Target(f"{parts.scheme}://{user}{at}{page}", instance, parts.hostname, page)


def _usual_port(parts: SplitResult) -> int:
    return 443 if parts.scheme == "https" else DEFAULT_PORT


def _seconds(query: dict[str, str], name: str, default: float) -> float:
    if name not in query:
        return default
    try:
        seconds = parse_duration_ms(query[name]) / 1000
    except ValueError as error:
        raise ExporterUrlError(f"{name}: {error}") from error
    if seconds <= 0:
        raise ExporterUrlError(f"{name}={query[name]} is no time to wait")
    return seconds


def _body_max(query: dict[str, str]) -> int:
    if "body_max" not in query:
        return BODY_MAX
    try:
        return parse_size(query["body_max"])
    except ValueError as error:
        raise ExporterUrlError(f"body_max: {error}") from error
