"""Carries entries from Redis into a queue: taken, published, and done when the queue holds them.

Whatever ends it at whatever moment, nothing is lost: what was not done is given again. When Redis
goes away, it waits for what is on its way, and begins anew with what Redis has when it is back.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from nexus.queue.errors import MessageRefused, QueueAway, QueueFull
from nexus.queue.port import Message, Publisher
from nexus.queue.redis.client import RedisAway
from nexus.queue.redis.entries import Entry
from nexus.queue.redis.source import Source

PATIENCE_S: Final = 60.0
_TAKE: Final = 1_000
_TAKE_BYTES: Final = 4 << 20
_FLIGHTS_MAX: Final = 8
_WAIT_S: Final = 0.05
_AGAIN_S: Final = 0.3
_RENEW_S: Final = 1.0
_READY_S: Final = 15.0
_LAND_S: Final = 15.0


@dataclass(slots=True)
class Moved:
    """What came of an import or an export so far."""

    moved: int = 0
    refused: int = 0
    bytes: int = 0
    left: int | None = None
    problem: str = ""
    stopped: bool = False


@dataclass(slots=True, eq=False)
class _Flight:
    """Entries on their way to the queue."""

    entries: list[Entry]
    messages: list[Message]
    settled: bool = False
    refusal: MessageRefused | None = None


@dataclass(slots=True)
class Import:
    """One import. `stop` ends it in good order; `show` is told how far it is."""

    source: Source
    publisher: Publisher
    message_of: Callable[[Entry], Message]
    stop: threading.Event
    follow: bool = False
    show: Callable[[Moved], None] = lambda _: None
    patience_s: float = PATIENCE_S
    totals: Moved = field(default_factory=Moved)
    _flights: deque[_Flight] = field(default_factory=deque)
    _landed: threading.Condition = field(default_factory=threading.Condition)
    _renewed: float = 0.0

    def run(self) -> Moved:
        """Until Redis has nothing more, or `stop`."""
        self.source.open()
        self._wait_for_queue()
        try:
            while True:
                try:
                    if self._step():
                        break
                except RedisAway as away:
                    self._outlast(away)
            self.totals.left = self.source.left()
        finally:
            self._leave()
        self.totals.stopped = self.stop.is_set()
        return self.totals

    def _step(self) -> bool:
        """One round; whether all is done."""
        self._renew()
        self._acknowledge()
        if self.stop.is_set():
            return self._wait_for_flights()
        if len(self._flights) < _FLIGHTS_MAX:
            entries = self.source.take(_TAKE, _TAKE_BYTES)
            if entries:
                self._send(entries)
                return False
            if not self._flights:
                return self._is_drained()
        self._wait()
        return False

    def _is_drained(self) -> bool:
        """Nothing is there now. Others may still have some, and if we follow there will be more."""
        self.totals.left = self.source.left()
        if not self.follow and not self.totals.left:
            return True
        self.show(self.totals)
        self.stop.wait(_WAIT_S)
        return False

    def _send(self, entries: list[Entry]) -> None:
        flight = _Flight(entries, [self.message_of(entry) for entry in entries])
        while not self._is_published(flight):
            self._renew()
            self._acknowledge()
            if self.stop.is_set():
                return  # Redis has them still
            self._wait()
        self._flights.append(flight)

    def _is_published(self, flight: _Flight) -> bool:
        try:
            self.publisher.publish(flight.messages, lambda refusal: self._land(flight, refusal))
        except QueueFull as full:
            self.totals.problem = str(full)
            return False
        return True

    def _land(self, flight: _Flight, refusal: MessageRefused | None) -> None:
        with self._landed:
            flight.settled, flight.refusal = True, refusal
            self._landed.notify_all()

    def _wait(self) -> None:
        with self._landed:
            if not (self._flights and self._flights[0].settled):
                self._landed.wait(_WAIT_S)

    def _acknowledge(self) -> None:
        """Those at the front that are settled are done."""
        while self._flights and self._flights[0].settled:
            flight = self._flights[0]
            refused = [] if flight.refusal is None else self._one_by_one(flight.entries)
            self.source.done(flight.entries, refused)
            self._flights.popleft()
            self.totals.moved += len(flight.entries) - len(refused)
            self.totals.refused += len(refused)
            self.totals.bytes += sum(entry.size for entry in flight.entries)
            self.totals.problem = ""
            self.show(self.totals)

    def _one_by_one(self, entries: Sequence[Entry]) -> list[Entry]:
        """Which entries the queue refuses: it told of the whole lot only."""
        flights = [_Flight([entry], [self.message_of(entry)]) for entry in entries]
        for flight in flights:
            self._alone(flight)
        return [flight.entries[0] for flight in flights if flight.refusal is not None]

    def _alone(self, flight: _Flight) -> None:
        while not self._is_published(flight):
            self.stop.wait(_WAIT_S)
        with self._landed:
            while not flight.settled:
                self._landed.wait(_WAIT_S)

    def _wait_for_flights(self) -> bool:
        """Whether all have landed, or will not in time; Redis has what has not."""
        deadline = time.monotonic() + _LAND_S
        while self._flights and time.monotonic() < deadline:
            self._renew()
            self._acknowledge()
            self._wait()
        return True

    def _outlast(self, away: RedisAway) -> None:
        """Redis is away, or was: begin anew with what it has, once all has landed."""
        deadline = time.monotonic() + self.patience_s
        self.totals.problem = str(away)
        while not self._reopened():
            self.show(self.totals)
            if self.stop.wait(_AGAIN_S) or (not self.follow and time.monotonic() > deadline):
                raise RedisAway(f"{away}; run it again when Redis is back: it goes on from there")

    def _reopened(self) -> bool:
        if not all(flight.settled for flight in self._flights):
            return False
        confirmed = [e for f in self._flights if f.refusal is None for e in f.entries]
        try:
            self.source.open(confirmed)
        except RedisAway:
            return False
        self._flights.clear()
        self.totals.moved += len(confirmed)
        self.totals.problem = ""
        return True

    def _renew(self) -> None:
        if time.monotonic() - self._renewed > _RENEW_S:
            self.source.renew()
            self.totals.left = self.source.left()
            self._renewed = time.monotonic()

    def _wait_for_queue(self) -> None:
        """Nothing is taken before the queue has answered once."""
        deadline = time.monotonic() + _READY_S
        while not self.stop.is_set():
            try:
                self.publisher.partitions()
            except QueueAway:
                if time.monotonic() > deadline:
                    self._leave()
                    raise
                self.stop.wait(_WAIT_S)
            else:
                return

    def _leave(self) -> None:
        try:
            self.source.close()
        except RedisAway:
            return  # the lock ends by itself
