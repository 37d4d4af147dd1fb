"""Connections that questions share: a bounded number, each to one question at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
from psycopg import errors

from nexus.store.errors import StoreAway, TooMuch
from nexus.store.postgres.connecting import Connection, connect, essence, is_alive
from nexus.store.postgres.url import PostgresUrl

CONNECTIONS: Final = 8
SECONDS_MAX: Final = 20.0  # that a statement may take, and that a question waits for its turn


class SnapshotGone(StoreAway):
    """Raised when what a snapshot stands for is held no more: a newer one is to be taken."""


class Pool:
    """Connections to one database, made when they are needed and kept."""

    def __init__(self, place: PostgresUrl, most: int = CONNECTIONS) -> None:
        self._place = place
        self._room = threading.Semaphore(most)
        self._turn = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection; what goes wrong with it is put into the words of the port."""
        if not self._room.acquire(timeout=SECONDS_MAX):
            raise TooMuch("others ask for much at this time: ask again, or for less")
        try:
            with self.translated():
                connection = self._taken()
                try:
                    yield connection
                finally:
                    self._put_back(connection)
        finally:
            self._room.release()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors of PostgreSQL as errors of the port."""
        try:
            yield
        except errors.QueryCanceled as error:
            raise TooMuch("this took too long: ask for less time or fewer series") from error
        except (errors.InvalidParameterValue, errors.UndefinedObject) as error:
            if "snapshot" not in str(error):
                raise StoreAway(f"store {self._place}: {essence(error)}") from error
            raise SnapshotGone(essence(error)) from error
        except psycopg.Error as error:
            raise StoreAway(f"store {self._place}: {essence(error)}") from error

    def connect(self) -> Connection:
        """A connection of one's own."""
        timeout = {"statement_timeout": f"{SECONDS_MAX:g}s"}
        return connect(self._place, "gateway", timeout)

    def close(self) -> None:
        with self._turn:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(psycopg.Error):
                connection.close()

    def _taken(self) -> Connection:
        if self._closed:
            raise StoreAway("the store was closed")
        while True:
            with self._turn:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self.connect()
            if is_alive(connection):
                return connection

    def _put_back(self, connection: Connection) -> None:
        is_whole = connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
        with self._turn:
            if is_whole and not self._closed:
                self._idle.append(connection)
                return
        connection.close()
