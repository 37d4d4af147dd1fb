"""Is the data directory ours to use, in a format that we know; and is there a dashboard."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import nexus
from nexus.log.data_dir import FORMAT_VERSION, META_FILE, DataDirUnreadable, read_json
from nexus.up.doctor.findings import Finding, ok, problem, warning

_STATIC: Final = Path(nexus.__file__).parent / "gateway" / "static"


def check_data_dir(data_dir: Path, holder: dict[str, Any] | None) -> Finding:
    if holder is not None:
        return ok("data directory", f"{data_dir}: up since process {holder.get('process', '?')}")
    place = data_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        found = f"{place} cannot be written to"
        return problem("data directory", found, "choose another --data-dir")
    return ok("data directory", f"{data_dir}" + ("" if data_dir.exists() else " (to be made)"))


def check_format(broker_dir: Path) -> Finding:
    """The version of the broker's files."""
    try:
        record = read_json(broker_dir / META_FILE)
    except (DataDirUnreadable, OSError) as error:
        return problem("format", str(error), "restore it from a backup, or move it away")
    if record is None:
        return ok("format", f"nothing in {broker_dir} yet")
    version = record.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        found = f"{broker_dir} has format {version}, this program knows {FORMAT_VERSION}"
        return problem("format", found, "a newer version wrote it: install that one")
    return ok("format", f"version {version} in {broker_dir}")


def check_dashboard(static: Path = _STATIC) -> Finding:
    if (static / "index.html").is_file():
        return ok("dashboard", "built")
    return warning("dashboard", "is not built; the API works without", "make web")
