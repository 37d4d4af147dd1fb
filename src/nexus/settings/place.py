"""Where the settings of all parts are written: in a file, or in a document fetched from elsewhere.

This package opens files only. Whoever can fetch a document hands it over with its text.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nexus.settings.errors import SettingsError

CONFIG_VARIABLE: Final = "NEXUS_CONFIG"
IN_ETCD: Final = "etcd://"


@dataclass(frozen=True, slots=True)
class Document:
    """YAML text, and where it is from, for messages."""

    place: str
    text: str


Config = Path | Document
Place = Path | str  # as messages name it


def config_place(told: str | None, environ: Mapping[str, str] | None = None) -> str | None:
    """Where the settings are: as told, else where NEXUS_CONFIG says; None is nowhere."""
    variables = os.environ if environ is None else environ
    return told or variables.get(CONFIG_VARIABLE) or None


def path_of(place: str) -> Path:
    """The file that the environment names; SettingsError for what this package does not open."""
    if place.startswith(IN_ETCD):
        raise SettingsError(
            f"environment {CONFIG_VARIABLE}: {place} is read by the `nexus` commands only"
        )
    return Path(place)
