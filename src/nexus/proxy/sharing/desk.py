"""Takes messages of one topic for the clients of one group, and shares them out.

No more is taken than the clients have room for. What comes when a client has just left goes to the
next one; what nobody comes for is given back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from nexus.observe.logs import get_logger
from nexus.proxy.broker import Broker
from nexus.proxy.errors import BrokerAway
from nexus.proxy.sharing.acknowledging import ACCEPT, RELEASE, UNDELIVERED, Acknowledging, Verdict
from nexus.proxy.sharing.consumer import READY_BYTES_MAX, Consumer, Place, shares
from nexus.proxy.sharing.deliveries import Delivered, acquired, missing
from nexus.proxy.sharing.ids import MessageId
from nexus.proxy.sharing.session import Most, Session
from nexus.proxy.topology import Topology
from nexus.web.problems import Problem
from nexus.wire.errors import ErrorCode, ProtocolError

WAIT_MS: Final = 500
SHORT_WAIT_MS: Final = 100  # where there is room for too few to ask every broker at once
FULL_S: Final = 0.05  # between two looks whether others made room
GATHER_S: Final = 0.005  # while there is little room, until there may be more
LITTLE: Final = 0.1  # of the room that clients have when they hold nothing
FAILED_S: Final = 0.2
FETCH_MOST: Final = 5_000
RELEASE_S: Final = 5.0

log = get_logger(__name__)


class Desk:
    """One member of a share group, for all clients of the group here."""

    def __init__(
        self,
        topology: Topology,
        acknowledging: Acknowledging,
        group: str,
        topic: str,
        *,
        is_detached: bool,
    ) -> None:
        self.group, self.topic = group, topic
        self.member = uuid4().hex
        self.consumers: list[Consumer] = []
        self._topology = topology
        self._acknowledging = acknowledging
        self.is_detached = is_detached
        self._spare: deque[tuple[Sequence[Delivered], float]] = deque()
        self._asked_for = 0  # room that fetches under way may fill
        self._holders: dict[Place, Consumer] = {}
        self._sessions: dict[Broker, asyncio.Task[None]] = {}
        self._room = asyncio.Event()
        self._releasing: set[asyncio.Task[None]] = set()

    def join(self, consumer: Consumer) -> None:
        """Share messages with one more client."""
        self.consumers.append(consumer)
        self._hand_spare()
        self._room.set()
        self.look()

    def leave(self, consumer: Consumer, *, keep: bool = False) -> None:
        """A client has left; what it holds is free for others, unless it keeps it."""
        consumer.end()
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        unseen = {delivered.place for delivered in consumer.ready}
        seen = [place for place in consumer.held if place not in unseen]
        for place in consumer.held:
            self._holders.pop(place, None)
        if not self.consumers and not self.is_detached:
            # With its connections everything is free at once, and none of it is taken again here.
            self._hang_up()
            return
        self._say(UNDELIVERED, unseen & consumer.held.keys())
        if not keep:
            self._say(RELEASE, seen)

    def settled(self, places: Iterable[Place]) -> None:
        """Messages are done, or held no more: there is room for others."""
        for place in places:
            consumer = self._holders.pop(place, None)
            if consumer is not None:
                consumer.settled(place)
        self.look_for_room()

    def look_for_room(self) -> None:
        """A client may have room again: for what came without any, then for more."""
        self._hand_spare()
        self._room.set()

    def look(self) -> None:
        """Have a session at every broker that leads a partition."""
        for broker in self._leaders():
            task = self._sessions.get(broker)
            if task is None or task.done():
                self._sessions[broker] = asyncio.create_task(self._take_from(broker))

    async def close(self) -> None:
        """Give everything back; safe to call twice."""
        for consumer in list(self.consumers):
            self.leave(consumer)
        if self.is_detached:
            self._say(UNDELIVERED, [one.place for some, _ in self._spare for one in some])
        self._spare.clear()
        tasks = self._hang_up()
        await asyncio.gather(*tasks, *self._releasing, return_exceptions=True)

    def _hang_up(self) -> list[asyncio.Task[None]]:
        tasks, self._sessions = list(self._sessions.values()), {}
        for task in tasks:
            task.cancel()
        return tasks

    # Taking ---------------------------------------------------------------------------------------

    async def _take_from(self, broker: Broker) -> None:
        """Take messages while the broker leads any partition."""
        session = Session(broker, self.group, self.member, is_detached=self.is_detached)
        try:
            while partitions := self._leaders().get(broker):
                try:
                    await self._take_once(session, partitions)
                except (BrokerAway, ProtocolError) as error:
                    log.debug("nothing can be taken", broker=broker.name, why=str(error))
                    await asyncio.sleep(FAILED_S)
                    await self._look_again()
        finally:
            session.close()

    async def _take_once(self, session: Session, partitions: set[int]) -> None:
        topic = self._topology.topics[self.topic]
        if self._has_little_room:
            await asyncio.sleep(GATHER_S)
        most = self._reserve()
        if not most and not self.consumers:
            self._room.clear()
            await self._room.wait()
            return
        is_scarce = most < len(self._sessions)
        wait_ms = 0 if not most else SHORT_WAIT_MS if is_scarce else WAIT_MS
        try:
            # With room for none it still tells what others settled.
            size = READY_BYTES_MAX * len(self.consumers)
            parts = await session.fetch(topic.id, partitions, Most(most, size), wait_ms)
        finally:
            self._asked_for -= most
        found = await self._share_out(parts, session.hold_s)
        if not most and not found:
            self._room.clear()
            try:
                async with asyncio.timeout(FULL_S):
                    await self._room.wait()
            except TimeoutError:
                self._forget_expired()

    @property
    def _has_little_room(self) -> bool:
        """Whether the clients have so much to do that a few messages more can wait for others."""
        free = sum(consumer.room for consumer in self.consumers) - self._asked_for
        return 0 < free < sum(consumer.most for consumer in self.consumers) * LITTLE

    def _reserve(self) -> int:
        """How many messages this fetch may bring."""
        free = sum(consumer.room for consumer in self.consumers) - self._asked_for
        share = min(-(-free // max(len(self._sessions), 1)), FETCH_MOST) if free > 0 else 0
        self._asked_for += share
        return share

    async def _share_out(self, parts: Iterable[Any], hold_s: float) -> int:
        until = monotonic() + hold_s
        found = 0
        for part in parts:
            if part.settled:
                self.settled((part.partition_index, offset) for offset in part.settled)
            if part.error_code != ErrorCode.NONE:
                await asyncio.sleep(SHORT_WAIT_MS / 1000)
                await self._look_again()
                continue
            delivered = acquired(part)
            gone = missing(part, delivered)
            if gone:
                self._say(ACCEPT, [(part.partition_index, offset) for offset in gone])
            self._hand(delivered, until)
            found += len(delivered)
        return found

    def _hand(self, delivered: Sequence[Delivered], until: float) -> None:
        """Give messages to the clients that have room; the rest waits for others to have some."""
        handed = self._hand_some(delivered, until)
        if handed < len(delivered):
            self._spare.append((delivered[handed:], until))

    def _hand_spare(self) -> None:
        """What came when there was no room goes to whoever has some now."""
        while self._spare:
            delivered, until = self._spare[0]
            handed = self._hand_some(delivered, until)
            if handed < len(delivered):
                self._spare[0] = (delivered[handed:], until)
                return
            self._spare.popleft()

    def _hand_some(self, delivered: Sequence[Delivered], until: float) -> int:
        handed = 0
        for consumer, count in shares(self.consumers, len(delivered)):
            some = delivered[handed : handed + count]
            self._holders.update(dict.fromkeys([one.place for one in some], consumer))
            consumer.give(some, until)
            handed += count
        return handed

    def _forget_expired(self) -> None:
        now = monotonic()
        while self._spare and self._spare[0][1] < now:
            self._spare.popleft()
        for consumer in self.consumers:
            consumer.forget_expired(now)
        self._hand_spare()

    # Inside ---------------------------------------------------------------------------------------

    def _leaders(self) -> dict[Broker, set[int]]:
        found: dict[Broker, set[int]] = {}
        topic = self._topology.topics.get(self.topic)
        for partition in range(len(topic.leaders) if topic else 0):
            broker = self._topology.owner(self.topic, partition)
            if broker is not None:
                found.setdefault(broker, set()).add(partition)
        return found

    async def _look_again(self) -> None:
        try:
            await self._topology.refresh()
        except Problem:
            return
        self.look()

    def _say(self, verdict: Verdict, places: Iterable[Place]) -> None:
        ids = [MessageId(partition, offset, self.member) for partition, offset in places]
        topic = self._topology.topics.get(self.topic)
        if not ids or topic is None:
            return

        async def say() -> None:
            try:
                deadline = monotonic() + RELEASE_S
                await self._acknowledging.settle(self.group, topic, ids, verdict, deadline)
            except Problem as problem:
                # Their time will be up; then they are free as well.
                log.warning("messages were not given back", count=len(ids), why=problem.detail)

        task = asyncio.create_task(say())
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)
