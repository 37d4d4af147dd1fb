"""ShareFetch: messages to work on, and what became of those from before. Versions 1 and 2.

A member gets what is free, at most `max_records` of it, in batches of the log with the offsets that
are meant: others may lie between them, and beside them in a batch that cannot be cut. It waits, at
most `max_wait_ms`, while nothing is free. Nothing is acquired for a connection that is gone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.broker.partition import Wake
from nexus.broker.sharing.queue import Queue
from nexus.broker.sharing.sessions import CLOSE, OPEN, Place, Session, SessionKey
from nexus.broker.sharing.settling import endpoints, leader_at, queue_at, settle
from nexus.wire.errors import ErrorCode, ProtocolError
from nexus.wire.messages.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

RECORDS_MAX: Final = 10_000
RECORDS_DEFAULT: Final = 500
RESPONSE_BYTES_MAX: Final = 16 << 20
WAIT_SECONDS_MAX: Final = 60.0


async def handle(broker: Broker, request: Request, body: ShareFetchRequest) -> ShareFetchResponse:
    """Settle what is said, then take what is free, or wait for it."""
    try:
        session = _session(broker, request, body)
    except ProtocolError as error:
        return ShareFetchResponse(error_code=error.code, error_message=str(error))
    fetch = _ShareFetch(broker, request, body, session)
    settling = fetch.settle()
    if body.share_session_epoch == CLOSE:
        await settling
        broker.sharing.session_over(session)
    else:
        await asyncio.gather(settling, fetch.take_or_wait(body.max_wait_ms / 1000))
    return fetch.response()


def _session(broker: Broker, request: Request, body: ShareFetchRequest) -> Session:
    key = SessionKey(body.group_id or "", body.member_id or "")
    sessions = broker.sharing.sessions
    if body.share_session_epoch == OPEN:
        session = sessions.open(key, request.connection, is_detached=body.is_detached)
    else:
        session = sessions.follow(key, body.share_session_epoch, request.connection)
    added = (Place(t.topic_id, p.partition_index) for t in body.topics for p in t.partitions)
    forgotten = (Place(t.topic_id, p) for t in body.forgotten_topics_data for p in t.partitions)
    session.change(added, forgotten)
    return session


class _ShareFetch:
    """One call: what it settles, what it finds."""

    def __init__(
        self, broker: Broker, request: Request, body: ShareFetchRequest, session: Session
    ) -> None:
        self._broker = broker
        self._request = request
        self._session = session
        # Less than none: who asks wants to know what others settled, and nothing else.
        self._room = min(max(body.max_records or RECORDS_DEFAULT, 0), RECORDS_MAX)
        self._bytes = min(max(body.max_bytes, 1), RESPONSE_BYTES_MAX)
        self._told = {
            Place(t.topic_id, p.partition_index): p.acknowledgement_batches
            for t in body.topics
            for p in t.partitions
            if p.acknowledgement_batches
        }
        self._is_full = body.share_session_epoch == OPEN
        self._answers: dict[Place, PartitionData] = {}
        self._lock_ms = 0

    async def settle(self) -> None:
        """Store what became of messages from before."""
        await asyncio.gather(*(self._settle(place, told) for place, told in self._told.items()))

    async def _settle(self, place: Place, told: list[AcknowledgementBatch]) -> None:
        key = self._session.key
        error = await settle(self._broker, key.group, key.member, place, told)
        answer = self._answer(place)
        if error is not None:
            answer.acknowledge_error_code = error.code
            answer.acknowledge_error_message = str(error)
            self._point_to_leader(place, answer, error)

    async def take_or_wait(self, seconds: float) -> None:
        """Take what is free; as long as that is nothing, wait."""
        loop = self._broker.loop
        deadline = loop.time() + min(max(seconds, 0), WAIT_SECONDS_MAX)
        woken = asyncio.Event()
        while True:
            woken.clear()
            queues = await self._take()
            left = deadline - loop.time()
            if self._has_something or left <= 0 or self._broker.is_stopping:
                return
            await self._wait(woken, queues, left)
            if self._request.connection.is_closed:
                return

    @property
    def _has_something(self) -> bool:
        return any(one.acquired_records or one.error_code for one in self._answers.values())

    async def _take(self) -> list[Queue]:
        queues = []
        for place in self._session.rotate():
            try:
                queue = await queue_at(self._broker, self._session.key.group, place)
                queues.append(queue)
                self._lock_ms = queue.config.visibility_ms
                if self._room > 0 and self._bytes > 0:
                    await self._take_from(place, queue)
            except ProtocolError as error:
                self._broker.metrics.error(error.code.name.lower())
                answer = self._answer(place)
                answer.error_code, answer.error_message = error.code, str(error)
                self._point_to_leader(place, answer, error)
        return queues

    async def _take_from(self, place: Place, queue: Queue) -> None:
        if self._request.connection.is_closed:
            return
        member = self._session.key.member
        acquired = queue.acquire(member, min(self._room, queue.reader.messages_in(self._bytes)))
        if not acquired:
            return
        try:
            data, sent, unsent = await queue.reader.read(acquired, self._bytes)
        except BaseException:
            queue.hand_back(member, acquired)
            raise
        if unsent:
            queue.hand_back(member, unsent)
        answer = self._answer(place)
        answer.records = data
        answer.acquired_records = [
            AcquiredRecords(
                first_offset=one.first, last_offset=one.last, delivery_count=one.attempt
            )
            for one in sent
        ]
        self._bytes -= len(data)
        count = sum(one.last - one.first + 1 for one in sent)
        self._room -= count
        queue.delivered.inc(count)
        topic = self._broker.topics.by_id(place.topic_id)
        if topic is not None:
            topic.traffic.read(count, len(data))

    async def _wait(self, woken: asyncio.Event, queues: list[Queue], seconds: float) -> None:
        wake: Wake = woken.set
        watched = [queue.watchers for queue in queues]
        watched += [queue.partition.watchers for queue in queues]
        for watchers in watched:
            watchers.add(wake)
        self._broker.long_polls.add(wake)
        try:
            async with asyncio.timeout(seconds):
                await woken.wait()
        except TimeoutError:
            pass
        finally:
            for watchers in watched:
                watchers.discard(wake)
            self._broker.long_polls.discard(wake)

    def _answer(self, place: Place) -> PartitionData:
        answer = self._answers.get(place)
        if answer is None:
            answer = PartitionData(partition_index=place.number, records=b"")
            self._answers[place] = answer
        return answer

    def _point_to_leader(self, place: Place, answer: PartitionData, error: ProtocolError) -> None:
        if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            answer.current_leader = leader_at(self._broker, place)

    def response(self) -> ShareFetchResponse:
        """What was found; a first answer names every partition of the session."""
        if self._is_full:
            for place in self._session.places:
                self._answer(place)
        for place, offsets in self._session.take_settled().items():
            self._answer(place).settled = offsets
        by_topic: dict[object, ShareFetchableTopicResponse] = {}
        for place, answer in self._answers.items():
            topic = by_topic.setdefault(
                place.topic_id, ShareFetchableTopicResponse(topic_id=place.topic_id)
            )
            topic.partitions.append(answer)
        moved = [one.current_leader for one in self._answers.values()]
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self._lock_ms,
            responses=list(by_topic.values()),
            node_endpoints=endpoints(self._broker, self._request, moved),
        )
