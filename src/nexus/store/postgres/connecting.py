"""Connections to PostgreSQL, and what its errors mean to a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from nexus.lake.errors import StoreError, StoreOut
from nexus.store.postgres.url import PostgresUrl

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

CONNECT_S: Final = 5
# A machine that is gone says nothing: without these a connection to it would hang for hours.
_ALIVE: Final = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_SETTINGS: Final = {"timezone": "UTC", "jit": "off", "datestyle": "ISO"}
# What passes by itself, beside a connection that broke: too many of them, a full disk, a conflict.
_PASSING: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.TransactionRollback,
    errors.ReadOnlySqlTransaction,
    errors.ObjectInUse,
)


def connect(place: PostgresUrl, role: str, settings: Mapping[str, str] | None = None) -> Connection:
    """A connection that commits every statement by itself; an error of psycopg if there is none."""
    said = conninfo_to_dict(place.address)
    own = {**_SETTINGS, **(settings or {})}.items()
    options = [said.get("options"), *(f"-c {name}={value}" for name, value in own)]
    given = {
        "connect_timeout": str(CONNECT_S),
        **_ALIVE,
        "client_encoding": "UTF8",
        "application_name": f"nexus {role}",
        **said,
        "options": " ".join(str(option) for option in options if option),
    }
    words = {name: str(value) for name, value in given.items() if value is not None}
    return psycopg.connect(make_conninfo(**words), autocommit=True)


def is_alive(connection: Connection) -> bool:
    """Whether the server is still there: after a restart all connections are dead at once."""
    if connection.closed:
        return False
    try:
        connection.execute("")
    except psycopg.Error:
        connection.close()
        return False
    return True


@contextmanager
def as_store_errors(place: PostgresUrl) -> Iterator[None]:
    """Errors of PostgreSQL in the words of a store: what may pass by itself is StoreOut."""
    try:
        yield
    except psycopg.Error as error:
        kind = StoreOut if isinstance(error, _PASSING) else StoreError
        raise kind(f"store {place}: {essence(error)}") from error


def essence(error: psycopg.Error) -> str:
    """The line that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
