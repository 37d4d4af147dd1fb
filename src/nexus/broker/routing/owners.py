"""Who answers for a partition or a group, and what says that somebody else does by now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nexus.broker.routing.shapes import Key
from nexus.broker.topics import OFFSETS_TOPIC, Topic
from nexus.cluster.partition_state import NOBODY
from nexus.groups import partition_for
from nexus.wire.errors import ErrorCode

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
# How long to wait before an owner that has just changed is looked for again.
LOOK_SECONDS: Final = 0.02


class Owners:
    """The cluster's view as routing needs it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._me = broker.settings.broker.id
        self.is_proxy = broker.settings.broker.routing == "proxy"

    def is_routed(self, topic: Topic) -> bool:
        """Whether this broker goes to the leaders for its clients."""
        return self.is_proxy if topic.routing is None else topic.routing == "proxy"

    def routes(self, name: str) -> bool:
        """The same of the topic with that name."""
        topic = self._broker.topics.find(name)
        return topic is not None and self.is_routed(topic)

    def of_partition(self, key: Key) -> int:
        """Who is to be asked: this broker, too, for what it does not route or does not know."""
        name, index = key
        topic = self._broker.topics.find(name)
        if topic is None or not self.is_routed(topic):
            return self._me
        state = self._broker.cluster.view.state(name, index)
        if state is None:
            return NOBODY if index < topic.count else self._me
        return state.leader

    def of_group(self, key: Key) -> int:
        """The coordinator of a group; this broker where nobody has had a group yet."""
        topic = self._broker.topics.find(OFFSETS_TOPIC)
        if topic is None:
            return self._me
        return self.of_partition((OFFSETS_TOPIC, partition_for(key[0], topic.count)))
