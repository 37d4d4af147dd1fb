"""What became of the messages of one partition in one group: a machine without clock or disk.

A message is free, held by a member until a deadline, on its way to the dead letters, or finished.
What is finished stays so: it is stored before anybody is told, and never delivered again. What is
held is in memory alone; after a crash it is free once more, so nothing is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from nexus.groups.sharing.config import SharingConfig
from nexus.groups.sharing.effects import Bury, Confirm, Effects, Keep, Record
from nexus.groups.sharing.keys import Key, KeyQueues
from nexus.groups.sharing.ranges import Ranges, neighbours, runs_of
from nexus.groups.timers import Timers

TOO_OFTEN: Final = "it was delivered {} times and never acknowledged"
KeyOf = Callable[[int], Key]


class Acquired(NamedTuple):
    """Messages that a member now holds, from first to last, for the `attempt`-th time."""

    first: int
    last: int
    attempt: int


class State(Enum):
    """What a message is at; a finished one is not kept singly."""

    FREE = 0
    HELD = 1
    BURYING = 2


@dataclass(slots=True, eq=False)
class _Term:
    """Messages that are held, or kept back, until the same moment, and how many still are."""

    offsets: list[int]
    left: int


@dataclass(slots=True)
class _Message:
    state: State = State.FREE
    attempts: int = 0
    holder: str = ""
    key: Key = None
    term: _Term | None = None


class Deliveries:
    """One partition, one group. Every call says what time it is."""

    def __init__(self, config: SharingConfig, record: Record) -> None:
        self._config = config
        self.start = record.start  # the first message that is not finished
        self._next = record.start  # the first that was not looked at yet
        self._finished = Ranges(record.finished)
        self._messages: dict[int, _Message] = {}  # between start and next, less the finished
        self._attempts = dict(record.attempts)  # from before, of what was not looked at yet
        self._free: list[int] = []  # a heap of those whose turn it is; stale ones are dropped
        self._timers: Timers[_Term] = Timers()  # ends of holding, and of waiting to be free
        self._keys = KeyQueues()
        self._is_changed = self._is_keeping = False
        self._newly_finished: list[int] = []  # since the last record
        self._newly_tried: set[int] = set()
        self._told: list[object] = []  # tokens that the record on its way will confirm
        self._untold: list[object] = []

    def waiting(self, end: int) -> int:
        """How many messages are not finished, in a log that ends there."""
        return max(end - self.start - self._finished.count, 0)

    @property
    def in_flight(self) -> int:
        """How many messages members hold, or gave back for later."""
        return sum(term.left for term in self._timers)

    def may_give(self, end: int) -> bool:
        """Whether it is worth while to ask for messages below `end`."""
        return bool(self._free) or self._next < min(end, self.start + self._config.window)

    def acquire(
        self, member: str, end: int, limit: int, now_ms: int, key_of: KeyOf
    ) -> tuple[list[Acquired], Effects]:
        """Give a member up to `limit` messages below `end`: those that came back, then new ones."""
        effects = self.tick(now_ms)
        taken = list(self._returned(limit))
        taken += self._fresh(limit - len(taken), end, key_of, effects)
        taken.sort()
        tries = []
        for offset in taken:
            message = self._messages[offset]
            message.state, message.holder = State.HELD, member
            message.attempts += 1
            tries.append((offset, message.attempts))
        self._begin_term(taken, now_ms + self._config.visibility_ms)
        self._newly_tried.update(taken)
        return list(map(Acquired._make, runs_of(tries))), [*effects, *self._changed()]

    def hand_back(self, member: str, offsets: Iterable[int]) -> list[int]:
        """Messages that were acquired and not sent: as if they had not been.

        Returns what the member does not hold.
        """

        held, refused = self._held(member, offsets)
        for offset in held:
            self._messages[offset].attempts -= 1
            self._give_back(offset)
        return refused

    def accept(
        self, token: object, member: str, offsets: Iterable[int]
    ) -> tuple[list[int], Effects]:
        """A member is done with messages; those that it does not hold are named.

        The token is confirmed once all this is durable.
        """
        held, refused = self._held(member, offsets)
        self._finish(held)
        return refused, self._changed(token)

    def release(
        self, token: object, member: str, offsets: Iterable[int], ready_ms: int = 0
    ) -> tuple[list[int], Effects]:
        """A member gives messages back, to be delivered again, not before a moment."""
        held, refused = self._held(member, offsets)
        effects = [effect for offset in held for effect in self._give_back(offset, ready_ms)]
        if ready_ms:
            kept_back = [at for at in held if self._messages[at].state is State.FREE]
            self._begin_term(kept_back, ready_ms)
        return refused, [*effects, *self._changed(token)]

    def reject(
        self, token: object, member: str, offsets: Iterable[int], reason: str
    ) -> tuple[list[int], Effects]:
        """A member says that messages can never be worked on: they go to the dead letters."""
        held, refused = self._held(member, offsets)
        return refused, [*(self._bury(offset, reason) for offset in held), *self._changed(token)]

    def renew(self, member: str, offsets: Iterable[int], now_ms: int) -> list[int]:
        """A member needs more time; returns what it does not hold."""
        held, refused = self._held(member, offsets)
        for offset in held:
            self._end_term(self._messages[offset])
        self._begin_term(held, now_ms + self._config.visibility_ms)
        return refused

    def member_gone(self, member: str) -> Effects:
        """What a member held is free at once."""
        effects: Effects = []
        for offset, message in self._messages.items():
            if message.state is State.HELD and message.holder == member:
                effects += self._give_back(offset)
        return [*effects, *self._changed()]

    def tick(self, now_ms: int) -> Effects:
        """What was held, or kept back, for long enough is free."""
        effects: Effects = []
        while (term := self._timers.pop(now_ms)) is not None:
            for offset in term.offsets:
                message = self._messages.get(offset)
                if message is None or message.term is not term:
                    continue
                if message.state is State.HELD:
                    effects += self._give_back(offset)
                else:
                    message.term = None
                    heapq.heappush(self._free, offset)
        return [*effects, *self._changed()]

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._timers.next_ms()

    def buried(self, offset: int) -> Effects:
        """A message is safely among the dead letters."""
        message = self._messages.get(offset)
        if message is not None and message.state is State.BURYING:
            self._finish([offset])
        return self._changed()

    def log_starts_at(self, offset: int) -> Effects:
        """Messages before this one were removed from the log: nobody can deliver them."""
        if offset > self.start:
            for at in [at for at in self._messages if at < offset]:
                self._forget(at)
            self._attempts = {at: n for at, n in self._attempts.items() if at >= offset}
            self._move_start(offset)
        return self._changed()

    def kept(self) -> Effects:
        """The record that was asked for is durable."""
        confirmed: Effects = [Confirm(token) for token in self._told]
        self._told, self._is_keeping = [], False
        return [*confirmed, *self._keep()]

    # Taking messages ------------------------------------------------------------------------

    def _returned(self, limit: int) -> Iterator[int]:
        """Free messages that were looked at before, oldest first."""
        while self._free and limit > 0:
            offset = heapq.heappop(self._free)
            message = self._messages.get(offset)
            if message is not None and message.state is State.FREE:
                limit -= 1
                yield offset

    def _fresh(self, limit: int, end: int, key_of: KeyOf, effects: Effects) -> Iterator[int]:
        """Messages that were not looked at yet."""
        end = min(end, self.start + self._config.window)
        while limit > 0 and self._next < end:
            gap = self._finished.gap(self._next, end)
            for offset in gap[:limit]:
                key = key_of(offset) if self._config.ordered else None
                self._next = offset + 1
                message = _Message(attempts=self._attempts.pop(offset, 0), key=key)
                self._messages[offset] = message
                self._keys.add(key, offset)
                if message.attempts >= self._config.max_deliveries:
                    effects += self._give_back(offset)  # a crash came before its burial
                elif self._keys.is_first(key, offset):
                    limit -= 1
                    yield offset
            if not gap:
                self._next = end

    # What becomes of them -------------------------------------------------------------------

    def _held(self, member: str, offsets: Iterable[int]) -> tuple[list[int], list[int]]:
        """Those that a member holds, each once, and those that it does not."""
        held: list[int] = []
        refused: list[int] = []
        for offset in dict.fromkeys(offsets):
            message = self._messages.get(offset)
            if message is None or message.state is not State.HELD or message.holder != member:
                refused.append(offset)
            else:
                held.append(offset)
        return held, refused

    def _begin_term(self, offsets: list[int], until_ms: int) -> None:
        if offsets:
            term = _Term(offsets, len(offsets))
            for offset in offsets:
                self._messages[offset].term = term
            self._timers.schedule(term, until_ms)

    def _end_term(self, message: _Message) -> None:
        term = message.term
        if term is not None:
            message.term = None
            term.left -= 1
            if not term.left:
                self._timers.cancel(term)

    def _give_back(self, offset: int, ready_ms: int = 0) -> Effects:
        message = self._messages[offset]
        self._is_changed = True  # its attempts count from now on, whatever happens
        if message.attempts >= self._config.max_deliveries:
            return [self._bury(offset, TOO_OFTEN.format(message.attempts))]
        message.state, message.holder = State.FREE, ""
        self._end_term(message)
        if not ready_ms:
            heapq.heappush(self._free, offset)
        return []

    def _bury(self, offset: int, reason: str) -> Bury:
        message = self._messages[offset]
        message.state, message.holder = State.BURYING, ""
        self._end_term(message)
        return Bury(offset, message.attempts, reason)

    def _finish(self, offsets: list[int]) -> None:
        if not offsets:
            return
        for offset in offsets:
            self._forget(offset)
        for first, last in neighbours(sorted(offsets)):
            self._finished.add(first, last)
        self._newly_finished += offsets
        self._move_start(self.start)

    def _forget(self, offset: int) -> None:
        message = self._messages.pop(offset)
        self._newly_tried.discard(offset)
        self._end_term(message)
        following = self._keys.remove(message.key, offset) if self._config.ordered else None
        if following is not None:
            heapq.heappush(self._free, following)

    def _move_start(self, offset: int) -> None:
        self._is_changed = True
        self.start = self._finished.cut_before(offset)
        self._next = max(self._next, self.start)

    # What is stored -------------------------------------------------------------------------

    def _changed(self, token: object | None = None) -> Effects:
        """One record is on its way at a time; what changes meanwhile goes with the next."""
        if token is not None:
            if not (self._is_changed or self._is_keeping):
                return [Confirm(token)]  # nothing was settled, and nothing is under way
            self._untold.append(token)
        return self._keep()

    def _keep(self) -> Effects:
        if self._is_keeping or not (self._is_changed or self._untold):
            return []
        self._is_changed, self._is_keeping = False, True
        self._told, self._untold = self._untold, []
        return [Keep(self._change())]

    def _change(self) -> Record:
        """What became different since the last record."""
        finished, self._newly_finished = self._newly_finished, []
        tried, self._newly_tried = self._newly_tried, set()
        attempts = tuple((at, self._messages[at].attempts) for at in sorted(tried))
        return Record(self.start, Ranges.of(finished).pairs(), attempts)
