"""One state of the database for all questions of a request: a snapshot that it exports.

A connection holds it for as long as it is among the last few; every question reads in a
transaction of its own that is set to it. One that is held no more is SnapshotGone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import psycopg

from nexus.store.errors import StoreAway
from nexus.store.postgres.connecting import Connection
from nexus.store.postgres.pool import Pool
from nexus.store.postgres.schema import check, version_of
from nexus.store.postgres.url import PostgresUrl

FRESH_S: Final = 0.25  # between two looks at the database
STALE_S: Final = 2.0  # beyond which a question waits for the look that another has begun
HELD: Final = 4  # snapshots
HELD_S: Final = 60.0  # a snapshot keeps the database from clearing up
_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


@dataclass(frozen=True, slots=True)
class Pin:
    """What is the case in a snapshot; without an id there is no store yet."""

    id: str = ""
    versions: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, tuple[datetime, int]] = field(default_factory=dict)  # of rollups
    identity: str = ""
    at: float = -1e9  # of the monotonic clock


class Pins:
    """The last few snapshots of a store; safe for any number of threads."""

    def __init__(self, place: PostgresUrl, pool: Pool) -> None:
        self._place = place
        self._pool = pool
        self._turn = threading.Lock()
        self._holders: deque[tuple[float, Connection]] = deque()
        self._last = Pin()
        self._failed_at, self._failure = -1e9, ""

    def fresh(self) -> Pin:
        """A snapshot that is fresh enough; one thread looks, and others need not wait for it."""
        began = time.monotonic()
        age = began - self._last.at
        if age < FRESH_S or not self._turn.acquire(blocking=age > STALE_S):
            return self._last
        try:
            if self._failed_at > began:
                raise StoreAway(self._failure)  # the look that this one has waited for
            return self._look() if self._last.at < began - FRESH_S else self._last
        finally:
            self._turn.release()

    def renewed(self) -> Pin:
        """The newest snapshot, looked at anew."""
        with self._turn:
            self._last = Pin()
            return self._look()

    @contextmanager
    def reading(self, pin: Pin) -> Iterator[psycopg.Cursor[Any]]:
        """A cursor in a transaction that sees what the snapshot has."""
        with self._pool.connection() as connection:
            try:
                connection.execute(f"{_BEGIN}; SET TRANSACTION SNAPSHOT '{pin.id}'")
                with connection.cursor() as cursor:
                    yield cursor
            finally:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        with self._turn:
            self._drop(0)

    def _look(self) -> Pin:
        at = time.monotonic()
        try:
            with self._pool.translated():
                self._last = self._looked(at)
        except StoreAway as error:
            self._failed_at, self._failure = time.monotonic(), str(error)
            self._drop(0)
            raise
        return self._last

    def _looked(self, at: float) -> Pin:
        connection = self._pool.connect()
        try:
            pin = self._pin(connection, at)
        except BaseException:
            connection.close()
            raise
        if pin.id and pin.versions == self._last.versions and self._is_held_for(at):
            connection.close()
            return Pin(self._last.id, pin.versions, pin.closed, pin.identity, at)
        if not pin.id:
            connection.close()
            return pin
        self._holders.append((at, connection))
        self._drop(HELD)
        return pin

    def _is_held_for(self, at: float) -> bool:
        """Whether the last snapshot can go on: nothing was stored since, and it is not too old."""
        if not self._holders:
            return False
        since, connection = self._holders[-1]
        return at - since < HELD_S and not connection.closed

    def _pin(self, connection: Connection, at: float) -> Pin:
        connection.execute(_BEGIN)
        version = version_of(connection)
        try:
            check(self._place, version)
        except Exception as error:
            raise StoreAway(str(error)) from error
        if not version:
            return Pin(at=at)
        tables = connection.execute("SELECT name, version FROM store_tables").fetchall()
        rolled = connection.execute("SELECT name, closed, version FROM store_rollups").fetchall()
        row = connection.execute(
            "SELECT pg_export_snapshot(), (SELECT id::text FROM store_identity)"
        ).fetchone()
        assert row is not None
        return Pin(
            str(row[0]),
            {name: number for name, number in tables if number},
            {name: (closed, upto) for name, closed, upto in rolled},
            str(row[1]),
            at,
        )

    def _drop(self, most: int) -> None:
        while len(self._holders) > most:
            _, connection = self._holders.popleft()
            with suppress(psycopg.Error):
                connection.close()
