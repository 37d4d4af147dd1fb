"""One request, asked of the owners of what is in it until each has answered.

An owner that is one no longer, or cannot be reached, is not an answer: the view moves, and the new
owner is asked, as long as the request has time. Then the client is told what this broker itself
would say, which is that another one leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from nexus.broker.dispatch import Handler, Request, settled
from nexus.broker.routing.channel import Lost, Unreachable
from nexus.broker.routing.lane import Lane
from nexus.broker.routing.owners import LOOK_SECONDS, MOVED
from nexus.broker.routing.shapes import Key, Shape
from nexus.cluster.partition_state import NOBODY
from nexus.wire.errors import ErrorCode

# However long a client is ready to wait, it is told something after this time.
FIND_SECONDS_MAX: Final = 30.0
# How much later than asked for an answer may come before its broker counts as silent.
LATE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How one kind of request is spread."""

    shape: Shape
    handler: Handler
    owner_of: Callable[[Key], int]
    # What is told when nobody knows whether it was done; None where it can be asked again.
    lost: Callable[[Key], Any] | None = None

    def by_owner(self, keys: Iterable[Key]) -> dict[int, set[Key]]:
        """Who is to be asked for what; NOBODY, too, where there is nobody."""
        found: dict[int, set[Key]] = {}
        for key in keys:
            found.setdefault(self.owner_of(key), set()).add(key)
        return found


class Spread:
    """One request under way."""

    def __init__(
        self, lane: Lane, plan: Plan, request: Request, body: object, seconds: float
    ) -> None:
        self._broker = broker = lane.broker
        self._lane = lane
        self._plan = plan
        self._request = request
        self._body = body
        self._deadline = broker.loop.time() + min(seconds, FIND_SECONDS_MAX)
        self._open = set(plan.shape.keys(body))
        self._answers: dict[Key, Any] = {}
        self._asked: list[tuple[set[Key], asyncio.Future[Any]]] = []
        self._turn = lane.turns.take()
        if not lane.turns.are_held:
            self._ask()

    async def finish(self) -> Any:
        """The one response."""
        try:
            if not self._asked:
                await self._lane.turns.come(self._turn)
                self._ask()
            await self._listen()
            while self._open and self._has_time:
                await self._lane.turns.come(self._turn)
                await asyncio.sleep(LOOK_SECONDS)
                self._ask()
                await self._listen()
            if self._open:
                await self._answer_here()
            return self._plan.shape.join(self._body, self._answers)
        finally:
            self._lane.turns.end(self._turn)

    @property
    def _has_time(self) -> bool:
        is_wanted = not self._request.connection.is_closed and not self._broker.is_stopping
        return is_wanted and self._broker.loop.time() < self._deadline

    def _ask(self) -> None:
        self._asked = []
        for owner, keys in self._plan.by_owner(self._open).items():
            if owner == NOBODY:
                continue
            part = self._plan.shape.part(self._body, keys.__contains__)
            try:
                answer = self._lane.ask(owner, self._plan.handler, self._request, part)
            except Unreachable:
                continue
            self._asked.append((keys, answer))

    async def _listen(self) -> None:
        for keys, answer in self._asked:
            late = self._deadline + LATE_SECONDS - self._broker.loop.time()
            await asyncio.wait({answer}, timeout=max(late, 0))
            self._take(keys, answer)

    def _take(self, keys: set[Key], answer: asyncio.Future[Any]) -> None:
        try:
            response = answer.result() if answer.done() else None
        except Unreachable:
            return
        except Lost:
            response = None
        if response is None:
            self._note_lost(keys)
            return
        for key, one in self._plan.shape.answers(response):
            if not self._has_moved(key, one.error_code):
                self._answers[key] = one
                self._open.discard(key)

    def _has_moved(self, key: Key, code: int) -> bool:
        """Whether the one who answered is not the owner, or does not know it yet."""
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return self._plan.owner_of(key) != self._broker.settings.broker.id
        return code in MOVED

    def _note_lost(self, keys: set[Key]) -> None:
        if self._plan.lost is not None:
            self._answers |= {key: self._plan.lost(key) for key in keys}
            self._open -= keys

    async def _answer_here(self) -> None:
        part = self._plan.shape.part(self._body, self._open.__contains__)
        response = await settled(self._plan.handler(self._broker, self._request, part))
        self._answers |= dict(self._plan.shape.answers(response))
