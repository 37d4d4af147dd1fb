"""The right to write to a store: a lock of the session, and a turn that every commit is held to.

The lock tells collectors apart that stand by. It goes with its connection, so it proves nothing;
what does is the turn: whoever takes the store over counts it up, and a commit of an earlier turn
is refused by the database itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psycopg

from nexus.lake.errors import Fenced, StoreOut
from nexus.store.postgres.connecting import Connection, as_store_errors, connect, is_alive
from nexus.store.postgres.schema import check, make, version_of
from nexus.store.postgres.url import PostgresUrl

_LOCK: Final = 0x6E657875735F7772


@dataclass(frozen=True, slots=True)
class Turn:
    """Who may write, since which change of hands, and to which store."""

    epoch: int
    owner: str
    store: str  # its identity, which a new store of the same name does not have


class PostgresLock:
    """The writer's lock of one store; taken again by itself when its connection broke."""

    def __init__(self, place: PostgresUrl, owner: str) -> None:
        self.place = place
        self._owner = owner
        self._guard = threading.RLock()
        self._connection: Connection | None = None
        self._turn: Turn | None = None
        self._is_lost = False

    def acquire(self, wait: Callable[[str], None] | None = None) -> None:
        """Take the lock; while another has it, `wait` is called with who that is.

        The tables are made where there are none.
        """
        while True:
            try:
                self.held()
                return
            except _Taken as taken:
                if wait is None:
                    raise
                wait(taken.by)

    def held(self) -> tuple[Connection, Turn]:
        """The connection that holds the lock, and the turn; Fenced if another has taken over."""
        with self._guard, as_store_errors(self.place):
            if self._is_lost:
                raise Fenced(f"store {self.place}: another collector has taken over")
            if self._turn and self._connection is not None and is_alive(self._connection):
                return self._connection, self._turn
            self._drop()
            self._connection = connect(self.place, "collector", {"lock_timeout": "60s"})
            try:
                self._turn = self._take(self._connection)
            except BaseException:
                self._drop()
                raise
            return self._connection, self._turn

    def lost(self) -> bool:
        return self._is_lost

    def release(self) -> None:
        """Let others write; safe to call twice."""
        with self._guard:
            self._drop()
            self._turn = None

    def _take(self, connection: Connection) -> Turn:
        version = version_of(connection)
        check(self.place, version)
        if not version:
            make(self.place, connection)
        last = _turn(connection)
        if self._turn is not None and last.epoch != self._turn.epoch:
            self._is_lost = True
            raise Fenced(f"store {self.place}: {last.owner} has taken over")
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone()
        if row is None or not row[0]:
            raise _Taken(self.place, last.owner or "another collector")
        # Waits for a commit of an earlier turn that is under way.
        connection.execute("UPDATE store_writer SET epoch = epoch + 1, owner = %s", (self._owner,))
        return _turn(connection)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


class _Taken(StoreOut):
    """Raised when another holds the lock."""

    def __init__(self, place: PostgresUrl, by: str) -> None:
        super().__init__(f"store {place}: {by} writes to it")
        self.by = by


def hold_turn(connection: Connection, turn: Turn) -> None:
    """In a transaction: nobody takes over before its end; Fenced if somebody has."""
    row = connection.execute("SELECT epoch, owner FROM store_writer FOR SHARE").fetchone()
    if row is None or row[0] != turn.epoch:
        raise Fenced(f"the store was taken over by {row[1] if row else 'nobody'}")


def _turn(connection: Connection) -> Turn:
    row = connection.execute(
        "SELECT epoch, owner, id::text FROM store_writer, store_identity"
    ).fetchone()
    if row is None:
        raise StoreOut("the store has lost its own tables")
    return Turn(int(row[0]), str(row[1]), str(row[2]))
