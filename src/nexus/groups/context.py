"""What the rules share while a request is served: settings, timers, and the effects gathered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from nexus.groups.config import GroupConfig
from nexus.groups.effects import Effects, Reply, Store, StoredRecord
from nexus.groups.results import Result
from nexus.groups.timers import Timers
from nexus.wire.errors import ErrorCode

Then = Callable[[ErrorCode, int], None]
"""What follows a store: its outcome, and the time at which it was known."""


class Deadline(Enum):
    """What is due."""

    SESSION = auto()
    PENDING = auto()
    REBALANCE = auto()
    SYNC = auto()
    OFFSETS_CHECK = auto()


TimerKey = tuple[Deadline, str, str]
"""What, in which group, of which member."""


@dataclass(slots=True)
class Waiting:
    """A store on its way: what follows, and who is told if the coordinator closes first."""

    then: Then
    token: object = None
    refusal: Callable[[ErrorCode], Result] | None = None


class Context:
    """Gathers the effects of one call; keeps the timers and what waits for a store."""

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self.config = config
        self.new_id = new_id
        self.timers: Timers[TimerKey] = Timers()
        self.waiting: dict[int, Waiting] = {}
        self._effects: Effects = []
        self._tag = 0

    def reply(self, token: object, result: Result) -> None:
        self._effects.append(Reply(token, result))

    def store(
        self,
        records: tuple[StoredRecord, ...],
        then: Then,
        token: object = None,
        refusal: Callable[[ErrorCode], Result] | None = None,
    ) -> None:
        """Ask for a store; `token` is one that only `then` would answer, `refusal` what else."""
        self._tag += 1
        self.waiting[self._tag] = Waiting(then, token, refusal)
        self._effects.append(Store(records, self._tag))

    def stored(self, tag: int, error: ErrorCode, now_ms: int) -> None:
        waiting = self.waiting.pop(tag, None)
        if waiting is not None:
            waiting.then(error, now_ms)

    def abandon(self, error: ErrorCode) -> None:
        """Nothing that waits for a store will hear of it: refuse those who wait for that alone."""
        for waiting in self.waiting.values():
            if waiting.refusal is not None:
                self.reply(waiting.token, waiting.refusal(error))
        self.waiting.clear()
        self.timers.clear()

    def take(self) -> Effects:
        """The effects since the last call."""
        effects, self._effects = self._effects, []
        return effects


_UNAVAILABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def told_to_clients(error: ErrorCode, too_large: ErrorCode) -> ErrorCode:
    """A failed store in words that clients of a group expect, so that they retry where it helps."""
    if error in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _MOVED:
        return ErrorCode.NOT_COORDINATOR
    return too_large if error in _TOO_LARGE else error
