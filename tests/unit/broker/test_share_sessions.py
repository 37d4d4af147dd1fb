"""Share sessions: calls follow each other, and a session ends with its connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from nexus.broker.sharing.sessions import (
    CLOSE,
    Place,
    SessionKey,
    SessionNotFound,
    Sessions,
    WrongSessionEpoch,
)
from nexus.wire.errors import InvalidRequest

KEY = SessionKey("g", "m")
ONE, OTHER = Place(UUID(int=1), 0), Place(UUID(int=1), 1)


@dataclass
class Connection:
    is_closed: bool = False


def opened(sessions: Sessions, connection: Any, key: SessionKey = KEY) -> Any:
    return sessions.open(key, connection, is_detached=False)


def test_calls_follow_each_other() -> None:
    sessions, connection = Sessions(), Connection()
    session = opened(sessions, connection)
    follow: Any = sessions.follow
    assert follow(KEY, 1, connection) is session
    assert follow(KEY, 2, connection) is session
    with pytest.raises(WrongSessionEpoch):
        follow(KEY, 2, connection)
    assert follow(KEY, CLOSE, connection) is session
    with pytest.raises(SessionNotFound):
        follow(KEY, 3, connection)


def test_a_session_ends_with_its_connection() -> None:
    sessions, connection, living = Sessions(), Connection(), Connection()
    session = opened(sessions, connection)
    opened(sessions, living, SessionKey("g", "other"))
    assert sessions.orphaned() == []
    connection.is_closed = True
    assert sessions.orphaned() == [session]
    assert len(sessions) == 1


def test_every_partition_gets_its_turn() -> None:
    session = opened(Sessions(), Connection())
    session.change([ONE, OTHER], [])
    assert [session.rotate()[0] for _ in range(3)] == [ONE, OTHER, ONE]
    session.change([], [ONE])
    assert session.rotate() == [OTHER]


def test_who_does_not_say_who_it_is_has_no_session() -> None:
    with pytest.raises(InvalidRequest):
        opened(Sessions(), Connection(), SessionKey("", "m"))
