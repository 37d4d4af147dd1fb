"""Flags of the broker's settings, by the option that each sets."""

from collections.abc import Iterable
from pathlib import Path

from nexus.settings.broker import SECTIONS
from nexus.settings.errors import SettingsError
from nexus.settings.kinds import split_host_port
from nexus.settings.options import FlagValue, options_of, suggestion


def broker_flags(
    *,
    listen: str | None,
    http: str | None,
    data_dir: Path | None,
    fsync: str | None,
    assigned: Iterable[str],
) -> dict[str, FlagValue]:
    """The flags that were given, by the dotted name of the option that they set."""
    flags = dict(_assignment(text) for text in assigned)
    if listen is not None:
        flags |= _address("--listen", listen, "broker.host", "broker.port")
    if http is not None:
        flags |= _address("--http", http, "broker.http_host", "broker.http_port")
    if data_dir is not None:
        flags["broker.data_dir"] = FlagValue("--data-dir", data_dir)
    if fsync is not None:
        flags["storage.fsync"] = FlagValue("--fsync", fsync)
    return flags


def _address(flag: str, text: str, host_key: str, port_key: str) -> dict[str, FlagValue]:
    try:
        host, port = split_host_port(text)
    except ValueError as error:
        raise SettingsError(f'flag {flag}: found "{text}", expected {error}') from None
    return {host_key: FlagValue(flag, host), port_key: FlagValue(flag, port)}


def _assignment(text: str) -> tuple[str, FlagValue]:
    name, separator, value = text.partition("=")
    if not separator:
        raise SettingsError(f'flag --set: found "{text}", expected SECTION.KEY=VALUE')
    known = [f"{s}.{o.key}" for s, cls in SECTIONS.items() for o in options_of(cls).values()]
    if name not in known:
        near = suggestion(name, known)
        hint = near if near.startswith("; did") else "; `nexus config show` lists them all"
        raise SettingsError(f"flag --set: {name}: unknown key{hint}")
    return name, FlagValue("--set", value)
