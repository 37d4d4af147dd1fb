"""Share sessions, as KIP-932 wants them: what a member reads from this broker, kept between calls.

A session belongs to a connection. When that ends, so does the session, and what its member held is
free, unless it was opened as a detached one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from nexus.broker.connection import Connection
from nexus.wire.errors import ErrorCode, InvalidRequest, ProtocolError

OPEN: Final = 0
CLOSE: Final = -1
SESSIONS_MAX: Final = 20_000
_EPOCH_MAX: Final = 2**31 - 1


class SessionNotFound(ProtocolError):
    """Raised when there is no such session here."""

    code = ErrorCode.SHARE_SESSION_NOT_FOUND


class WrongSessionEpoch(ProtocolError):
    """Raised when a call is not the one that was to follow."""

    code = ErrorCode.INVALID_SHARE_SESSION_EPOCH


class TooManySessions(ProtocolError):
    """Raised when this broker has as many sessions as it can."""

    code = ErrorCode.SHARE_SESSION_LIMIT_REACHED


class SessionKey(NamedTuple):
    """Whose session it is."""

    group: str
    member: str


class Place(NamedTuple):
    """A partition as clients name it here."""

    topic_id: UUID
    number: int


@dataclass(slots=True)
class Session:
    """What one member reads here."""

    key: SessionKey
    connection: Connection
    is_detached: bool = False
    epoch: int = OPEN
    places: dict[Place, None] = field(default_factory=dict)  # in the order of their turns
    settled: dict[Place, list[int]] = field(default_factory=dict)  # by others, not told yet

    def change(self, added: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Read more, or less."""
        self.places.update(dict.fromkeys(added))
        for place in forgotten:
            self.places.pop(place, None)

    def take_settled(self) -> dict[Place, list[int]]:
        """What others settled in the member's name since this was asked last."""
        settled, self.settled = self.settled, {}
        return settled

    def rotate(self) -> list[Place]:
        """The partitions, each time another one first, so that all get their turn."""
        places = list(self.places)
        if places:
            del self.places[places[0]]
            self.places[places[0]] = None
        return places


class Sessions:
    """All sessions of this broker."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def open(self, key: SessionKey, connection: Connection, *, is_detached: bool) -> Session:
        """Begin a session; an earlier one of the same member ends, and its messages stay held."""
        if not key.group or not key.member:
            raise InvalidRequest("a group and a member must be named")
        if key not in self._sessions and len(self._sessions) >= SESSIONS_MAX:
            raise TooManySessions(f"there are {SESSIONS_MAX} sessions here")
        session = self._sessions[key] = Session(key, connection, is_detached)
        return session

    def follow(self, key: SessionKey, epoch: int, connection: Connection) -> Session:
        """The session that a call goes on with, or ends."""
        session = self._sessions.get(key)
        if session is None:
            raise SessionNotFound(f"{key.member} has no session here")
        if epoch == CLOSE:
            del self._sessions[key]
            return session
        expected = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        if epoch != expected:
            raise WrongSessionEpoch(f"epoch {epoch} came where {expected} was to follow")
        session.epoch, session.connection = epoch, connection
        return session

    def settled_by_others(self, key: SessionKey, place: Place, offsets: Iterable[int]) -> None:
        """Messages of a member were settled outside of its session, which will tell it."""
        session = self._sessions.get(key)
        if session is not None and place in session.places:
            session.settled.setdefault(place, []).extend(offsets)

    def orphaned(self) -> list[Session]:
        """End the sessions whose connections ended."""
        gone = [one for one in self._sessions.values() if one.connection.is_closed]
        for session in gone:
            del self._sessions[session.key]
        return gone
