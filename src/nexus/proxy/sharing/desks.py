"""All share groups that have clients at this proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from time import monotonic
from typing import Final

from orjson import Fragment

from nexus.proxy.sharing.acknowledging import Acknowledging, Verdict
from nexus.proxy.sharing.consumer import Consumer
from nexus.proxy.sharing.deliveries import documents, events
from nexus.proxy.sharing.desk import Desk
from nexus.proxy.sharing.ids import MessageId
from nexus.proxy.topics import Topics
from nexus.proxy.topology import Topic, Topology
from nexus.web.problems import Overloaded
from nexus.web.sse import OPENING, heartbeat
from nexus.wire.messages.share_fetch import AcknowledgeType

CONSUMERS_MAX: Final = 20_000
DESKS_MAX: Final = 1_000
CHUNK_BYTES: Final = 64 << 10
LINGER_S: Final = 2.0  # a desk waits so long for the next client

Key = tuple[str, str, bool]  # group, topic, whether messages outlive the request


class Sharing:
    """Where clients take messages and say what became of them."""

    def __init__(self, topology: Topology, topics: Topics) -> None:
        self._topology = topology
        self._topics = topics
        self._acknowledging = Acknowledging(topology)
        self._desks: dict[Key, Desk] = {}
        self._members: dict[str, Desk] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def consumers(self) -> int:
        """How many clients take messages now."""
        return sum(len(desk.consumers) for desk in self._desks.values())

    async def subscribe(
        self, group: str, topic: str, most: int, heartbeat_s: float, deadline: float
    ) -> AsyncIterator[bytes]:
        """A client's events; they end when the client is closed or the proxy stops."""
        await self._topics.find_or_make(topic, deadline)
        self._check_room()
        return self._events((group, topic, False), Consumer(most), heartbeat_s)

    async def _events(
        self, key: Key, consumer: Consumer, heartbeat_s: float
    ) -> AsyncIterator[bytes]:
        # Joined only now: events that nobody ever begins to read are never ended either.
        desk = self._desk(key)
        desk.join(consumer)
        try:
            yield OPENING
            while not consumer.is_ended:
                if not await consumer.wait(heartbeat_s):
                    yield heartbeat()
                    continue
                taken = consumer.take(CHUNK_BYTES)
                desk.look_for_room()
                if taken:
                    yield events(taken, desk.topic, desk.member)
        finally:
            desk.leave(consumer)
            self._close_later(desk)

    async def poll(
        self, group: str, topic: str, most: int, wait_s: float, deadline: float
    ) -> list[Fragment]:
        """Up to so many messages; waits for the first one only."""
        await self._topics.find_or_make(topic, deadline)
        self._check_room()
        desk = self._desk((group, topic, True))
        consumer = Consumer(most)
        desk.join(consumer)
        keep = False
        try:
            await consumer.wait(wait_s)
            taken = consumer.take(CHUNK_BYTES * 64)
            keep = True
            return documents(taken, topic, desk.member)
        finally:
            desk.leave(consumer, keep=keep)
            self._close_later(desk)

    async def settle(
        self,
        group: str,
        topic_name: str,
        ids: Sequence[MessageId],
        verdict: Verdict,
        deadline: float,
    ) -> set[MessageId]:
        """Say what became of messages; those that are not held under their id."""
        topic: Topic = await self._topics.find(topic_name, deadline)
        refused = await self._acknowledging.settle(group, topic, ids, verdict, deadline)
        if verdict.kind != AcknowledgeType.RENEW:
            self._make_room(ids)
        return refused

    async def close(self) -> None:
        """End every stream, and give back what its client holds; safe to call twice."""
        self._is_closed = True
        desks, self._desks = list(self._desks.values()), {}
        await asyncio.gather(*(desk.close() for desk in desks))

    # Inside ---------------------------------------------------------------------------------------

    def _make_room(self, ids: Iterable[MessageId]) -> None:
        places: dict[str, list[tuple[int, int]]] = {}
        for partition, offset, member in ids:
            places.setdefault(member, []).append((partition, offset))
        for member, some in places.items():
            desk = self._members.get(member)
            if desk is not None:
                desk.settled(some)

    def _check_room(self) -> None:
        if self._is_closed or self.consumers >= CONSUMERS_MAX or len(self._desks) >= DESKS_MAX:
            raise Overloaded("no more clients can take messages here")

    def _desk(self, key: Key) -> Desk:
        desk = self._desks.get(key)
        if desk is None:
            group, topic, is_detached = key
            desk = Desk(self._topology, self._acknowledging, group, topic, is_detached=is_detached)
            self._desks[key] = desk
            self._members[desk.member] = desk
        return desk

    def _close_later(self, desk: Desk) -> None:
        if desk.consumers:
            return
        if not desk.is_detached:
            self._forget(desk)
        task = asyncio.create_task(self._close_unused(desk))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_unused(self, desk: Desk) -> None:
        until = monotonic() + LINGER_S
        while desk.is_detached and monotonic() < until:
            await asyncio.sleep(LINGER_S / 4)
            if desk.consumers or self._is_closed:
                return
        self._forget(desk)
        await desk.close()

    def _forget(self, desk: Desk) -> None:
        self._members.pop(desk.member, None)
        key = (desk.group, desk.topic, desk.is_detached)
        if self._desks.get(key) is desk:
            del self._desks[key]
