"""The version of a store's layout, and how a database gets there."""

from __future__ import annotations

import json
import secrets
from typing import Final

from nexus.lake.errors import StoreError
from nexus.store.influx.layout import OWN, POLICIES, place_of
from nexus.store.influx.lines import text_field
from nexus.store.influx.talking import Influx, quoted
from nexus.store.influx.url import InfluxUrl

VERSION: Final = 1
_MISSING: Final = "database not found"


class SchemaNewer(StoreError):
    """Raised when the store is of a later version than this program knows."""


class SchemaOlder(StoreError):
    """Raised when the store has to be brought forward first."""


def version_of(influx: Influx) -> tuple[int, str]:
    """The version of the store, and which store it is; 0 where there is none."""
    try:
        rows = influx.tell(f"SELECT said FROM {place_of('schema')} ORDER BY time DESC LIMIT 1")
    except StoreError as error:
        if _MISSING in str(error) or "retention policy not found" in str(error):
            return 0, ""
        raise
    if not rows:
        return 0, ""
    said = json.loads(rows[0]["said"])
    return int(said["version"]), str(said["identity"])


def check(place: InfluxUrl, version: int) -> None:
    """Raise unless a store of this version can be worked with."""
    if version > VERSION:
        raise SchemaNewer(
            f"store {place}: it is of version {version}, and this program knows stores up to"
            f" {VERSION}: use a newer nexus"
        )
    if 0 < version < VERSION:
        raise SchemaOlder(
            f"store {place}: it is of version {version}, and this program needs {VERSION}:"
            f" run nexus store migrate --store {place}"
        )


def make(influx: Influx) -> int:
    """Make database and policies, or bring them forward; the version that they were."""
    before, identity = version_of(influx)
    if before > VERSION:
        check(influx.place, before)
    name = quoted(influx.place.database)
    there = _policies(influx)
    if there is None:
        influx.tell(f"CREATE DATABASE {name}")
        there = {}
    for policy, shard in POLICIES.items():
        if policy not in there:
            influx.tell(
                f'CREATE RETENTION POLICY "{policy}" ON {name}'
                f" DURATION INF REPLICATION 1 SHARD DURATION {shard}"
            )
    if before < VERSION:
        said = {"version": VERSION, "identity": identity or secrets.token_hex(8)}
        influx.write(OWN, f"schema said={text_field(json.dumps(said))} {VERSION}\n".encode())
    return before


def check_policies(influx: Influx) -> None:
    """Raise if a policy keeps for a time: what is older would be thrown away as it comes."""
    for policy, duration in (_policies(influx) or {}).items():
        if policy in POLICIES and duration not in ("0s", "0"):
            raise StoreError(
                f"store {influx.place}: its retention policy {policy} keeps for {duration}, so"
                " InfluxDB would throw older readings away as they come; give it DURATION INF, and"
                " tell the collector how long to keep them (--retention-…)"
            )


def _policies(influx: Influx) -> dict[str, str] | None:
    """The policies that there are, and how long each keeps; None without a database."""
    try:
        rows = influx.tell(f"SHOW RETENTION POLICIES ON {quoted(influx.place.database)}")
    except StoreError as error:
        if _MISSING in str(error):
            return None
        raise
    return {str(row["name"]): str(row["duration"]) for row in rows}
