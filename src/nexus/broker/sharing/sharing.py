"""All queues of this broker: found by group and partition, fed, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final
from uuid import UUID

from nexus.broker.coordination import LeaderOf
from nexus.broker.dispatch import spawn
from nexus.broker.partition import NotLeader, Partition
from nexus.broker.sharing.dead_letters import DeadLetters, Origin
from nexus.broker.sharing.overview import ShareCounts
from nexus.broker.sharing.peers import Peers
from nexus.broker.sharing.queue import Queue, Services
from nexus.broker.sharing.sessions import Session, Sessions
from nexus.broker.sharing.state_client import StateClient
from nexus.broker.sharing.states import States
from nexus.broker.topics import Topic
from nexus.groups.share_members import ShareGroups
from nexus.observe.logs import get_logger
from nexus.wire.errors import ErrorCode, InvalidRequest, PolicyViolation, ProtocolError

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

LOOK_SECONDS: Final = 0.2
GROUPS_SECONDS: Final = 0.5
log = get_logger(__name__)
QueueKey = tuple[str, UUID, int]


class QueueFull(ProtocolError):
    """Raised when a queue is as deep as it may be: clients may try again later."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Sharing:
    """Share groups as this broker serves them."""

    def __init__(self, broker: Broker, leader_of: LeaderOf, *, now_ms: Callable[[], int]) -> None:
        self._broker = broker
        self.now_ms = now_ms
        self.groups = ShareGroups()
        self.sessions = Sessions()
        self.states = States(
            broker.topics,
            broker.admin,
            leader_of,
            broker.settings,
            now_ms=now_ms,
            off_loop=broker.off_loop,
            damaged=broker.found_damage,
        )
        self._peers = Peers(broker)
        self._client = StateClient(self.states, self._peers)
        letters = DeadLetters(broker, self._peers)
        self.counts = ShareCounts(broker.metrics.registry)
        self._services = Services(broker, self._client, letters, self.counts)
        self._queues: dict[QueueKey, Queue] = {}
        # The epoch in which a partition's groups were looked up.
        self._looked_up: dict[tuple[UUID, int], int] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Load what is kept here, and look after sessions and groups."""
        self.states.start()
        loop = self._broker.loop
        self._tasks = [spawn(loop, self._look_after()), spawn(loop, self._look_for_groups())]

    def close(self) -> None:
        """Answer everyone who waits; safe to call twice."""
        for task in self._tasks:
            task.cancel()
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()
        self.states.close()
        self._peers.close()

    async def queue(self, group: str, topic: Topic, index: int) -> Queue:
        """The queue of a group in a partition that is led here, ready for use."""
        partition = topic.partition(index)
        if not partition.is_leader or self._broker.is_stopping:
            raise NotLeader(f"{topic.name}/{index} is not led here")
        partition.check_online()
        if topic.is_internal:
            raise PolicyViolation(f"{topic.name} belongs to the broker")
        if not group:
            raise InvalidRequest("no group is named")
        queue = self._opened(group, topic, partition)
        await queue.ready()
        return queue

    def led(self) -> Iterator[Queue]:
        """The queues that this broker is in charge of."""
        return (queue for queue in self._queues.values() if not queue.is_over)

    def session_over(self, session: Session) -> None:
        """A session ended: what its member held is free."""
        if session.is_detached:
            return
        for place in session.places:
            queue = self._queues.get((session.key.group, *place))
            if queue is not None:
                queue.member_gone(session.key.member)

    def check_depth(self, topic: Topic) -> None:
        """Refuse what would make a queue deeper than its topic allows, by counters alone.

        A broker counts the partitions that it leads, and has their share of the depth.
        """
        led = [one for one in topic.partitions.values() if one.is_leader]
        share = topic.queue_depth_max * len(led) / topic.count
        depths: dict[str, int] = {}
        for queue in self.led():
            if queue.partition.topic == topic.name:
                depths[queue.group] = depths.get(queue.group, 0) + queue.waiting
        for group, depth in depths.items():
            if depth >= share:
                raise QueueFull(f"{depth} messages of {topic.name} wait for the group {group}")

    def topic_deleted(self, name: str) -> None:
        """A topic is gone, and so are its queues."""
        self.counts.forget_topic(name)
        for key, queue in list(self._queues.items()):
            if queue.partition.topic == name and queue.partition.is_retired:
                queue.close()
                del self._queues[key]
                self._looked_up.pop(key[1:], None)
                spawn(self._broker.loop, self.states.forget(key[1]))

    def _opened(self, group: str, topic: Topic, partition: Partition) -> Queue:
        key = (group, topic.topic_id, partition.index)
        queue, config = self._queues.get(key), topic.sharing
        if queue is None or queue.is_over or queue.config != config:
            if queue is not None:
                queue.close()
            origin = Origin(group, topic, partition.index)
            queue = self._queues[key] = Queue(self._services, origin, partition, config)
        return queue

    async def _look_for_groups(self) -> None:
        """Once for each leadership: count for groups whose consumers did not come yet, too."""
        while True:
            await asyncio.sleep(GROUPS_SECONDS)
            if not self._client.is_in_use:
                continue
            try:
                await self._look_up_groups()
            except ProtocolError as error:
                log.debug("groups are looked up later", why=str(error))

    async def _look_up_groups(self) -> None:
        for topic in [one for one in self._broker.topics if not one.is_internal]:
            for partition in list(topic.partitions.values()):
                place, epoch = (topic.topic_id, partition.index), partition.leader_epoch
                if not partition.is_leader or self._looked_up.get(place) == epoch:
                    continue
                groups = await self._client.groups(topic.name, *place)
                if partition.is_leader and partition.leader_epoch == epoch:
                    self._looked_up[place] = epoch
                    for group in groups:
                        self._opened(group, topic, partition)

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for session in self.sessions.orphaned():
                self.session_over(session)
            for key in [key for key, queue in self._queues.items() if queue.is_over]:
                self._queues.pop(key).close()
