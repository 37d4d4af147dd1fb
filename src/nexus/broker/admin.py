"""Topics made, changed and deleted for clients: checked here, agreed on by the cluster.

What returns is known to this broker; the others follow in a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from nexus.broker.topic_config import check_configs
from nexus.broker.topics import Topic, Topics
from nexus.cluster.port import Coordination, NewTopic
from nexus.settings import BrokerSettings
from nexus.wire.errors import (
    ErrorCode,
    InvalidReplicationFactor,
    PolicyViolation,
    ProtocolError,
    TopicAlreadyExists,
)

DEFAULT: Final = -1
KNOWN_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.005


class NotKnownYet(ProtocolError):
    """Raised when what was agreed on does not become known here in time."""

    code = ErrorCode.REQUEST_TIMED_OUT


class Admin:
    """What clients may ask to be done with topics."""

    def __init__(self, topics: Topics, cluster: Coordination, settings: BrokerSettings) -> None:
        self._topics = topics
        self._cluster = cluster
        self._settings = settings

    def replication(self, wanted: int) -> int:
        """How many replicas a topic gets; InvalidReplicationFactor where that cannot be."""
        there = self.most(len(self._cluster.view.known()))
        if wanted == DEFAULT:
            is_etcd = self._settings.cluster.mode == "etcd"
            wanted = self._settings.replication.default_replication_factor if is_etcd else 1
        if not 1 <= wanted <= there:
            brokers = "broker" if there == 1 else "brokers"
            raise InvalidReplicationFactor(f"replication factor {wanted} with {there} {brokers}")
        return wanted

    def most(self, wanted: int) -> int:
        """So many replicas, or as many as there can be."""
        if self._settings.cluster.mode != "etcd":
            return 1
        return max(1, min(wanted, len(self._cluster.view.known())))

    async def create(self, wanted: NewTopic) -> Topic:
        """Make a topic; InvalidTopic, InvalidPartitions, InvalidConfig or TopicAlreadyExists."""
        self._topics.check_new(wanted.name, wanted.partitions, wanted.configs)
        made = await self._cluster.create_topic(wanted)

        def is_known() -> bool:
            topic = self._topics.find(wanted.name)
            return topic is not None and topic.topic_id == made.topic_id

        await self._until(is_known)
        return self._topics.topic(wanted.name)

    async def ensure(
        self, name: str, partitions: int, configs: Mapping[str, str], replication: int = DEFAULT
    ) -> Topic:
        """The topic of that name, made if it is not there."""
        if (found := self._topics.find(name)) is not None:
            return found
        if (task := self._topics.creating(name)) is not None:
            return await asyncio.shield(task)
        try:
            wanted = NewTopic(name, partitions, self.replication(replication), configs)
            return await self.create(wanted)
        except TopicAlreadyExists:
            await self._until(lambda: self._topics.find(name) is not None)
            return self._topics.topic(name)

    async def delete(self, name: str) -> None:
        """Remove a topic and its data."""
        topic = self._topics.topic(name)
        if topic.is_internal:
            raise PolicyViolation(f"{name} belongs to the broker and cannot be deleted")
        await self._cluster.delete_topic(name)
        await self._until(lambda: self._topics.by_id(topic.topic_id) is None)

    async def grow(
        self, name: str, count: int, assignment: tuple[tuple[int, ...], ...] = ()
    ) -> None:
        """Let a topic have `count` partitions."""
        topic = self._topics.check_growth(name, count)
        await self._cluster.add_partitions(name, count, assignment)
        await self._until(lambda: topic.count >= count)

    async def set_configs(self, name: str, configs: Mapping[str, str | None]) -> None:
        """Replace a topic's own settings."""
        topic = self._topics.topic(name)
        checked = check_configs(configs)
        await self._cluster.set_configs(name, checked)
        await self._until(lambda: topic.configs == checked)

    async def _until(self, is_known: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + KNOWN_SECONDS
        while not is_known():
            if loop.time() > deadline:
                raise NotKnownYet("it was agreed on, and is not known here yet")
            await asyncio.sleep(_LOOK_SECONDS)
