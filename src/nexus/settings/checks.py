"""Checks that look at more than one value, each with a line that names the keys and the way out."""

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from nexus.settings.errors import SettingsError
from nexus.settings.options import Source, Strength
from nexus.settings.units import format_duration, format_size

if TYPE_CHECKING:
    from nexus.settings.broker import BrokerSettings


def choose_fsync(values: MutableMapping[str, Any], sources: MutableMapping[str, Source]) -> None:
    """`fsync_interval` alone selects `fsync: interval`; beside another fsync it is a contradiction.

    The stronger source wins: `--fsync commit` overrules an interval in the file.
    """
    mode, interval = sources["storage.fsync"], sources["storage.fsync_interval"]
    if interval.strength is Strength.DEFAULT or mode.strength > interval.strength:
        return
    if mode.strength < interval.strength:
        values["fsync"] = "interval"
        sources["storage.fsync"] = interval
    elif values["fsync"] != "interval":
        raise SettingsError(
            f"{interval.where}: storage.fsync_interval: contradicts fsync: {values['fsync']};"
            " expected fsync: interval, or no fsync_interval"
        )


def check_broker(settings: "BrokerSettings") -> None:
    """Refuses combinations that cannot work."""
    _check_ports(settings)
    _check_sizes(settings)
    _check_replicas(settings)
    _check_sessions(settings)


def _check_ports(settings: "BrokerSettings") -> None:
    broker = settings.broker
    if broker.port and (broker.host, broker.port) == (broker.http_host, broker.http_port):
        raise _error(
            settings.provenance,
            "broker.http_port",
            f"{broker.http_port} is also the broker's own port; expected another",
        )


def _check_sizes(settings: "BrokerSettings") -> None:
    storage, performance = settings.storage, settings.performance
    _at_least(
        settings.provenance,
        ("storage.segment_size", storage.segment_bytes),
        ("performance.max_message_size", performance.max_message_bytes),
    )
    _at_least(
        settings.provenance,
        ("performance.max_request_size", performance.max_request_bytes),
        ("performance.max_message_size", performance.max_message_bytes),
    )
    _at_least(
        settings.provenance,
        ("performance.request_memory", performance.request_memory_bytes),
        ("performance.max_request_size", performance.max_request_bytes),
    )


def _check_replicas(settings: "BrokerSettings") -> None:
    replication = settings.replication
    if replication.min_insync_replicas > replication.default_replication_factor:
        raise _error(
            settings.provenance,
            "replication.min_insync_replicas",
            f"found {replication.min_insync_replicas}, expected at most"
            f" replication.default_replication_factor ({replication.default_replication_factor})",
        )


def _check_sessions(settings: "BrokerSettings") -> None:
    groups = settings.groups
    if groups.session_timeout_min_ms > groups.session_timeout_max_ms:
        raise _error(
            settings.provenance,
            "groups.session_timeout_min",
            f"found {format_duration(groups.session_timeout_min_ms)}, expected at most"
            f" groups.session_timeout_max ({format_duration(groups.session_timeout_max_ms)})",
        )


def _at_least(
    sources: Mapping[str, Source], large: tuple[str, int], small: tuple[str, int]
) -> None:
    """Names the key that somebody set: a default is nobody's mistake."""
    if large[1] >= small[1]:
        return
    if sources[large[0]].strength >= sources[small[0]].strength:
        what = (
            f"found {format_size(large[1])}, expected at least {small[0]} ({format_size(small[1])})"
        )
        raise _error(sources, large[0], what)
    what = f"found {format_size(small[1])}, expected at most {large[0]} ({format_size(large[1])})"
    raise _error(sources, small[0], what)


def _error(sources: Mapping[str, Source], key: str, what: str) -> SettingsError:
    return SettingsError(f"{sources[key].where}: {key}: {what}")
