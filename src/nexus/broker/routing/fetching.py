"""Fetch from several owners at once: whoever has enough first ends the wait for all.

Each owner is looked at first, and then waited for. A wait that another owner ended stays open: the
client's next fetch mostly asks that owner for the same again, and takes it up. So nothing is read
twice, nothing is lost, and only a client that wants something else makes us hang up on an owner,
which ends the wait there.
"""

from __future__ import annotations

import asyncio
from copy import copy
from typing import Any, Final

from nexus.broker.dispatch import Handler, Request
from nexus.broker.handlers import fetch
from nexus.broker.peer import forwarding_id
from nexus.broker.routing.channel import Channel, Lost, Unreachable
from nexus.broker.routing.lane import Lane
from nexus.broker.routing.owners import LOOK_SECONDS, MOVED
from nexus.broker.routing.shapes import FETCH, Key
from nexus.broker.routing.spreading import Plan
from nexus.cluster.partition_state import NOBODY
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

# A look needs no wait, so an owner that takes this long is taken for silent.
ANSWER_SECONDS: Final = 5.0


class Leg:
    """One owner's part in the fetches of one client."""

    def __init__(self, lane: Lane, owner: int, here: Handler) -> None:
        self._here = here
        self._lane = lane
        self._owner = owner
        self._channel: Channel | None = None
        self._wanted: FetchRequest | None = None
        self.question: asyncio.Future[Any] | None = None
        self.seen: FetchResponse | None = None

    @property
    def bytes(self) -> int:
        """How much was found."""
        return 0 if self.seen is None else sum(_size(one) for _, one in FETCH.answers(self.seen))

    @property
    def has_error(self) -> bool:
        return self.seen is not None and any(one.error_code for _, one in FETCH.answers(self.seen))

    def want(self, request: Request, part: FetchRequest) -> None:
        """Have an answer to this, or be on the way to one."""
        if self._wanted != part:
            self.drop()
            self._wanted = part
        self.take()
        if self.question is None and not self.bytes:
            # Nothing tells that what was empty still is, as an open wait would.
            self._ask(request, part, 0)

    def wait(self, request: Request, min_bytes: int, wait_ms: int) -> None:
        """Let the owner wait for more."""
        if self.question is None and self._wanted is not None:
            part = copy(self._wanted)
            part.min_bytes = min_bytes
            self._ask(request, part, wait_ms)

    def take(self) -> None:
        """Take what was answered by now."""
        if self.question is None or not self.question.done():
            return
        question, self.question = self.question, None
        try:
            self.seen = question.result()
        except (Unreachable, Lost, asyncio.CancelledError):
            self.fail()

    def fail(self) -> None:
        """The owner does not answer: its partitions may have another one soon."""
        wanted = self._wanted
        self.drop()
        if wanted is not None:
            self.seen = _refused(wanted)

    def deliver(self) -> FetchResponse:
        """What the client is told; what it has got is not told again."""
        assert self.seen is not None
        seen = self.seen
        if self.bytes or self.has_error:
            self.drop()
        return seen

    def drop(self) -> None:
        """Want nothing any more; safe to call twice."""
        if self.question is not None:
            self.question.cancel()
            if self._channel is not None:
                self._channel.close()
        self.question = self.seen = self._wanted = None

    def _ask(self, request: Request, part: FetchRequest, wait_ms: int) -> None:
        if not wait_ms:
            self.seen = None
        asked = copy(part)
        asked.max_wait_ms = wait_ms
        if self._owner == self._lane.broker.settings.broker.id:
            self.question = self._lane.ask(self._owner, self._here, request, asked)
            return
        try:
            if self._channel is None or self._channel.is_closed:
                self._channel = self._lane.open(self._owner)
        except Unreachable:
            self.seen = _refused(part)
            return
        client_id = forwarding_id(request.client_host, request.client_id)
        self.question = self._channel.ask(request.api.key, request.version, client_id, asked)


class Race:
    """The fetches of one client: one at a time, over all owners."""

    def __init__(self, plan: Plan, lane: Lane) -> None:
        self._plan = plan
        self._broker = lane.broker
        self._lane = lane
        self._legs: dict[int, Leg] = {}
        self._one_at_a_time = asyncio.Lock()
        self._stopping = asyncio.Event()

    async def run(self, request: Request, body: FetchRequest) -> FetchResponse:
        """Answer with what is there, or wait for it."""
        async with self._one_at_a_time:
            wait_s = min(max(body.max_wait_ms, 0) / 1000, fetch.WAIT_SECONDS_MAX)
            end = self._broker.loop.time() + wait_s
            self._broker.long_polls.add(self._stopping.set)
            try:
                while True:
                    legs, unowned = self._begin(request, body)
                    await self._look(legs)
                    await self._wait(request, body, legs, end)
                    response, has_moved = self._joined(body, legs, unowned)
                    if not has_moved or self._is_over(request, end):
                        return response
                    await asyncio.sleep(LOOK_SECONDS)
            finally:
                self._broker.long_polls.discard(self._stopping.set)

    def drop(self) -> None:
        """The client fetches elsewhere, or all of it is here now."""
        for leg in self._legs.values():
            leg.drop()

    def close(self) -> None:
        """The client is gone."""
        self._stopping.set()
        self.drop()

    def _is_over(self, request: Request, end: float) -> bool:
        is_unwanted = request.connection.is_closed or self._stopping.is_set()
        return is_unwanted or self._broker.loop.time() >= end

    def _begin(self, request: Request, body: FetchRequest) -> tuple[list[Leg], FetchRequest]:
        by_owner = self._plan.by_owner(FETCH.keys(body))
        unowned: set[Key] = by_owner.pop(NOBODY, set())
        for owner in self._legs.keys() - by_owner.keys():
            self._legs[owner].drop()
        legs = []
        for owner, keys in by_owner.items():
            part: FetchRequest = FETCH.part(body, keys.__contains__)
            # Together they stay within what the client takes, but for a first batch of each.
            part.max_bytes = max(min(body.max_bytes, fetch.RESPONSE_BYTES_MAX) // len(by_owner), 1)
            leg = self._legs.get(owner)
            if leg is None:
                leg = self._legs[owner] = Leg(self._lane, owner, self._plan.handler)
            leg.want(request, part)
            legs.append(leg)
        return legs, FETCH.part(body, unowned.__contains__)

    async def _look(self, legs: list[Leg]) -> None:
        """Until something is known of every owner: "empty" may be said only of what was seen."""
        unseen = [leg for leg in legs if leg.seen is None and leg.question is not None]
        await _first(unseen, ANSWER_SECONDS, asyncio.ALL_COMPLETED)
        for leg in unseen:
            leg.take()
            if leg.seen is None:
                leg.fail()

    async def _wait(
        self, request: Request, body: FetchRequest, legs: list[Leg], end: float
    ) -> None:
        while True:
            for leg in legs:
                leg.take()
            found = sum(leg.bytes for leg in legs)
            is_enough = found >= body.min_bytes or any(leg.has_error for leg in legs)
            if is_enough or not legs or self._is_over(request, end):
                return
            left = end - self._broker.loop.time()
            for leg in legs:
                leg.wait(request, body.min_bytes - found + leg.bytes, int(left * 1000) + 1)
            if any(leg.has_error for leg in legs):
                return
            await _first(legs, left, asyncio.FIRST_COMPLETED, self._stopping)

    def _joined(
        self, body: FetchRequest, legs: list[Leg], unowned: FetchRequest
    ) -> tuple[FetchResponse, bool]:
        """The response, and whether all that it could tell is that something has moved."""
        answers = {key: _no_leader(key) for key in FETCH.keys(unowned)}
        for leg in legs:
            answers |= dict(FETCH.answers(leg.deliver()))
        response: FetchResponse = FETCH.join(body, answers)
        errors = {one.error_code for one in answers.values() if one.error_code}
        has_moved = bool(errors) and errors <= MOVED and not any(map(_size, answers.values()))
        return response, has_moved


async def _first(
    legs: list[Leg], seconds: float, until: str, stopping: asyncio.Event | None = None
) -> None:
    questions: set[asyncio.Future[Any]] = {leg.question for leg in legs if leg.question is not None}
    stop = asyncio.ensure_future(stopping.wait()) if stopping is not None else None
    if stop is not None:
        questions.add(stop)
    if questions:
        await asyncio.wait(questions, timeout=seconds, return_when=until)
    if stop is not None:
        stop.cancel()


def _refused(part: FetchRequest) -> FetchResponse:
    response: FetchResponse = FETCH.join(part, {key: _no_leader(key) for key in FETCH.keys(part)})
    return response


def _no_leader(key: Key) -> PartitionData:
    return PartitionData(
        partition_index=key[1],
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        high_watermark=-1,
        records=b"",
    )


def _size(answer: PartitionData) -> int:
    records = answer.records
    if records is None:
        return 0
    return len(records) if isinstance(records, bytes | bytearray | memoryview) else records.size
