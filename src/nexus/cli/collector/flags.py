"""Flags of the collector's commands, by the option that each sets."""

from collections.abc import Mapping
from typing import Any

from nexus.settings.errors import SettingsError
from nexus.settings.kinds import split_host_port
from nexus.settings.options import FlagValue


def collector_flags(
    given: Mapping[str, tuple[str, Any]], http: str | None = None
) -> dict[str, FlagValue]:
    """The flags that were given, by the dotted name of the option that they set."""
    flags = {
        f"collector.{key}": FlagValue(flag, value)
        for key, (flag, value) in given.items()
        if value is not None and value != []
    }
    return flags | _address(http)


def _address(text: str | None) -> dict[str, FlagValue]:
    if text is None:
        return {}
    try:
        host, port = split_host_port(text)
    except ValueError as error:
        raise SettingsError(f'flag --http: found "{text}", expected {error}') from None
    return {
        "collector.http_host": FlagValue("--http", host),
        "collector.http_port": FlagValue("--http", port),
    }
