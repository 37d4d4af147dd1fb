"""Where the table `readings` stands, without the libraries that read tables where that is possible.

A start should not wait for them.
"""

from __future__ import annotations

from pathlib import Path

from nexus.lake.url import parse_store_url

_TABLE, _LOG = "readings", "_delta_log"


def newest_version(store: str) -> int:
    """The last commit's number; -1 if there is none yet."""
    place = parse_store_url(store)
    if place.is_local:
        log = Path(place.table_uri(_TABLE)) / _LOG
        return max((int(p.stem) for p in log.glob("*.json") if p.stem.isdecimal()), default=-1)
    from nexus.lake.table import LakeTable  # noqa: PLC0415
    from nexus.telemetry.tables import TABLES  # noqa: PLC0415

    found = LakeTable.find(place, TABLES[_TABLE])
    return -1 if found is None else found.version
