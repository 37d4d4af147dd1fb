"""Which CSV files a location names: a path, a folder, a pattern, or any of these as a URL."""

import os
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from nexus.telemetry.csv.text import is_gzip
from nexus.telemetry.errors import TelemetryError

# Why a file among others gave nothing.
UNREADABLE_FILE: Final = "file is unreadable"
UNKNOWN_FORM: Final = "file is not a CSV of readings"

_SUFFIXES: Final = (".csv", ".csv.gz")


class NoSuchFiles(TelemetryError):
    """Raised when a path or a pattern names no file."""

    exit_code = 2


def path_of(location: str) -> str:
    """The path or pattern of a `csv://` URL; anything else is one already."""
    if not location.startswith("csv:"):
        return location
    # Not by urlsplit: "?" and "#" are characters of names and patterns.
    rest = location.removeprefix("csv:")
    return unquote(rest.removeprefix("//"))


def find_files(location: str) -> list[Path]:
    """The files that a path, a directory (its *.csv and *.csv.gz) or a pattern names, sorted."""
    path = Path(location)
    if path.is_dir():
        return sorted(p for p in path.iterdir() if p.name.endswith(_SUFFIXES) and p.is_file())
    if path.exists() or not is_pattern(location):
        return [path] if path.exists() else []
    found = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    return sorted(p for p in found if p.is_file())


def is_pattern(location: str) -> bool:
    """Whether a location has characters of a pattern (a file may be named with them too)."""
    return any(character in location for character in "*?[")


def text_size(path: Path) -> int:
    """The bytes of a file's text, as near as can be known without reading it."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not is_gzip(file.fileno()) or size < 18:
            return size
        said = int.from_bytes(os.pread(file.fileno(), 4, size - 4), "little")
        return max(said, size)
