"""Where a command's settings are: in a file, or in etcd, where a part that runs follows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nexus.settings.place import IN_ETCD, Config, config_place

if TYPE_CHECKING:
    from nexus.settings.changes import Follow

S = TypeVar("S")


def read_config(told: str | None) -> Config | None:
    """The settings that --config or NEXUS_CONFIG names: a file to be read, or what etcd holds."""
    place = config_place(told)
    if place is not None and place.startswith(IN_ETCD):
        from nexus.etcd_settings.document import read_settings

        return read_settings(place)
    return None if told is None else Path(told)


def loaded(
    told: str | None, load: Callable[[Config | None], S], sections: Mapping[str, type]
) -> tuple[S, Follow[S] | None]:
    """A part's settings, and how it hears of changes; None where it would have to be restarted."""
    settings = load(read_config(told))
    place = config_place(told)
    if place is None or not place.startswith(IN_ETCD):
        return settings, None
    from nexus.etcd_settings.document import parse_settings_key
    from nexus.etcd_settings.following import SettingsFollower

    return settings, SettingsFollower(parse_settings_key(place), load, sections)
