"""Makes a store's tables and brings them forward: one number says which version they are.

Versions only grow. A program that is older than the tables does not touch them.
"""

from __future__ import annotations

from typing import Final

from nexus.lake.errors import StoreError
from nexus.store.postgres.connecting import Connection, as_store_errors
from nexus.store.postgres.layout import VERSION_1
from nexus.store.postgres.url import PostgresUrl

# What leads from each version to the next, the first from nothing. Never changed once released.
STEPS: Final = (VERSION_1,)
VERSION: Final = len(STEPS)
_LOCK: Final = 0x6E657875735F6D69  # of whoever changes the tables
_KNOWN: Final = "CREATE TABLE IF NOT EXISTS store_schema (version int NOT NULL, at timestamptz)"


# Windows are cut by date_bin, which came with this one.
_SERVER_LEAST: Final = 14


class SchemaNewer(StoreError):
    """Raised when the tables are of a later version than this program knows."""


class SchemaOlder(StoreError):
    """Raised when the tables have to be brought forward first."""


def version_of(connection: Connection) -> int:
    """The version of the tables; 0 where there are none."""
    found = connection.execute("SELECT to_regclass('store_schema')").fetchone()
    if found is None or found[0] is None:
        return 0
    row = connection.execute("SELECT max(version) FROM store_schema").fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


def check(place: PostgresUrl, version: int) -> None:
    """Raise unless tables of this version can be worked with."""
    if version > VERSION:
        raise SchemaNewer(
            f"store {place}: its tables are of version {version}, and this program knows them up to"
            f" {VERSION}: use a newer nexus"
        )
    if 0 < version < VERSION:
        raise SchemaOlder(
            f"store {place}: its tables are of version {version}, and this program needs {VERSION}:"
            f" run nexus store migrate --store {place}"
        )


def make(place: PostgresUrl, connection: Connection) -> int:
    """Make the tables, or bring them forward; the version that they were."""
    with as_store_errors(place), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        before = version_of(connection)
        if before > VERSION:
            check(place, before)
        _check_server(place, connection)
        connection.execute(_KNOWN)
        for number, step in enumerate(STEPS[before:], before + 1):
            connection.execute(step)
            connection.execute("INSERT INTO store_schema VALUES (%s, now())", (number,))
    return before


def _check_server(place: PostgresUrl, connection: Connection) -> None:
    server = connection.info.server_version // 10_000
    if server < _SERVER_LEAST:
        raise StoreError(f"store {place}: PostgreSQL {server} is too old, it takes {_SERVER_LEAST}")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"store {place}: the database is in {encoding}, which cannot hold every text: make it"
            " with ENCODING 'UTF8' TEMPLATE template0"
        )
