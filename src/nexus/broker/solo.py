"""One broker alone: it holds and leads everything, and what its disk says is agreed on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from nexus.broker.topics import Topic, Topics
from nexus.cluster.controlling import PartitionKey
from nexus.cluster.partition_state import PartitionState
from nexus.cluster.port import Listener, Member, NewTopic, Report, TopicInfo, View


class SoloView(View):
    """Every partition there is, on one broker."""

    __slots__ = ("_led_here", "_topics")

    def __init__(self, topics: Topics, me: int) -> None:
        super().__init__(controller=me)
        self._topics = topics
        self._led_here = PartitionState((me,), me, 0, (me,))

    def state(self, topic: str, number: int) -> PartitionState | None:
        return self._led_here if self._topics.has(topic, number) else None


class Solo:
    """The cluster of one."""

    def __init__(
        self, topics: Topics, me: int, reserve_ids: Callable[[int], Awaitable[range]]
    ) -> None:
        self._topics = topics
        self._reserve_ids = reserve_ids
        self.view: View = SoloView(topics, me)

    async def start(self, me: Member, listener: Listener) -> None:
        self.view.members[me.id] = me

    async def leave(self) -> None:
        """Nobody else could lead."""

    async def stop(self) -> None:
        """There is nobody to tell."""

    async def create_topic(self, wanted: NewTopic) -> TopicInfo:
        return _info(
            await self._topics.create(wanted.name, wanted.partitions, dict(wanted.configs))
        )

    async def delete_topic(self, name: str) -> None:
        await self._topics.delete(name)

    async def add_partitions(
        self, name: str, count: int, assignment: tuple[tuple[int, ...], ...] = ()
    ) -> None:
        await self._topics.add_partitions(name, count)

    async def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        await self._topics.set_configs(name, configs)

    async def propose(self, key: PartitionKey, state: PartitionState) -> bool:
        return False

    async def reserve_producer_ids(self, count: int) -> range:
        return await self._reserve_ids(count)

    async def report(self, report: Report) -> None:
        """Nobody else plans."""

    def set_peers(self, peers: Mapping[int, tuple[str, int]]) -> None:
        """There is no list: this broker is alone."""


def _info(topic: Topic) -> TopicInfo:
    return TopicInfo(topic.name, topic.topic_id, topic.count, topic.configs)
