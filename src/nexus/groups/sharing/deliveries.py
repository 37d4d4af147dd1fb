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
from nexus.groups.sharing.ranges import Ranges, runs_of
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


@dataclass(slots=True)
class _Message:
    state: State = State.FREE
    attempts: int = 0
    holder: str = ""
    key: Key = None


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
        self._timers: Timers[int] = Timers()  # ends of holding, and of waiting to be free
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
        return len(self._timers)

    def acquire(
        self, member: str, end: int, limit: int, now_ms: int, key_of: KeyOf
    ) -> tuple[list[Acquired], Effects]:
        """Give a member up to `limit` messages below `end`: those that came back, then new ones."""
        effects = self.tick(now_ms)
        taken = list(self._returned(limit))
        taken += self._fresh(limit - len(taken), end, key_of, effects)
        for offset in taken:
            message = self._messages[offset]
            message.state, message.holder = State.HELD, member
            message.attempts += 1
            self._timers.schedule(offset, now_ms + self._config.visibility_ms)
        self._newly_tried.update(taken)
        runs = runs_of((offset, self._messages[offset].attempts) for offset in sorted(taken))
        return list(map(Acquired._make, runs)), [*effects, *self._changed()]

    def hand_back(self, member: str, offsets: Iterable[int]) -> list[int]:
        """Messages that were acquired and not sent: as if they had not been.

        Returns what the member does not hold.
        """

        def undo(offset: int) -> None:
            self._messages[offset].attempts -= 1
            self._give_back(offset)

        return self._settle(member, offsets, undo)

    def accept(
        self, token: object, member: str, offsets: Iterable[int]
    ) -> tuple[list[int], Effects]:
        """A member is done with messages; those that it does not hold are named.

        The token is confirmed once all this is durable.
        """
        refused = self._settle(member, offsets, self._finish)
        return refused, self._changed(token)

    def release(
        self, token: object, member: str, offsets: Iterable[int], ready_ms: int = 0
    ) -> tuple[list[int], Effects]:
        """A member gives messages back, to be delivered again, not before a moment."""
        effects: Effects = []
        refused = self._settle(
            member, offsets, lambda offset: effects.extend(self._give_back(offset, ready_ms))
        )
        return refused, [*effects, *self._changed(token)]

    def reject(
        self, token: object, member: str, offsets: Iterable[int], reason: str
    ) -> tuple[list[int], Effects]:
        """A member says that messages can never be worked on: they go to the dead letters."""
        effects: Effects = []
        refused = self._settle(
            member, offsets, lambda offset: effects.append(self._bury(offset, reason))
        )
        return refused, [*effects, *self._changed(token)]

    def renew(self, member: str, offsets: Iterable[int], now_ms: int) -> list[int]:
        """A member needs more time; returns what it does not hold."""
        until_ms = now_ms + self._config.visibility_ms
        return self._settle(member, offsets, lambda at: self._timers.schedule(at, until_ms))

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
        while (offset := self._timers.pop(now_ms)) is not None:
            if self._messages[offset].state is State.HELD:
                effects += self._give_back(offset)
            else:
                heapq.heappush(self._free, offset)
        return [*effects, *self._changed()]

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._timers.next_ms()

    def buried(self, offset: int) -> Effects:
        """A message is safely among the dead letters."""
        message = self._messages.get(offset)
        if message is not None and message.state is State.BURYING:
            self._finish(offset)
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
            offset = self._next
            self._next += 1
            if offset in self._finished:
                continue
            message = self._messages[offset] = _Message(attempts=self._attempts.pop(offset, 0))
            if self._config.ordered:
                message.key = key_of(offset)
                self._keys.add(message.key, offset)
            if message.attempts >= self._config.max_deliveries:
                effects += self._give_back(offset)  # a crash came before its burial
            elif not self._config.ordered or self._keys.is_first(message.key, offset):
                limit -= 1
                yield offset

    # What becomes of them -------------------------------------------------------------------

    def _settle(
        self, member: str, offsets: Iterable[int], then: Callable[[int], None]
    ) -> list[int]:
        refused: list[int] = []
        for offset in offsets:
            message = self._messages.get(offset)
            if message is None or message.state is not State.HELD or message.holder != member:
                refused.append(offset)
            else:
                then(offset)
        return refused

    def _give_back(self, offset: int, ready_ms: int = 0) -> Effects:
        message = self._messages[offset]
        self._is_changed = True  # its attempts count from now on, whatever happens
        if message.attempts >= self._config.max_deliveries:
            return [self._bury(offset, TOO_OFTEN.format(message.attempts))]
        message.state, message.holder = State.FREE, ""
        if ready_ms:
            self._timers.schedule(offset, ready_ms)
        else:
            self._timers.cancel(offset)
            heapq.heappush(self._free, offset)
        return []

    def _bury(self, offset: int, reason: str) -> Bury:
        message = self._messages[offset]
        message.state, message.holder = State.BURYING, ""
        self._timers.cancel(offset)
        return Bury(offset, message.attempts, reason)

    def _finish(self, offset: int) -> None:
        self._forget(offset)
        self._finished.add(offset)
        self._newly_finished.append(offset)
        self._move_start(self.start)

    def _forget(self, offset: int) -> None:
        message = self._messages.pop(offset)
        self._newly_tried.discard(offset)
        self._timers.cancel(offset)
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
