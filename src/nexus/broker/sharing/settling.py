"""What a call says of messages, put to their queues: for ShareFetch and ShareAcknowledge alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.broker.sharing.queue import Queue
from nexus.broker.sharing.sessions import Place
from nexus.broker.topics import Topic
from nexus.cluster.partition_state import NOBODY
from nexus.wire.errors import ErrorCode, ProtocolError, UnknownTopicId
from nexus.wire.messages.fetch import LeaderIdAndEpoch
from nexus.wire.messages.share_fetch import AcknowledgementBatch, NodeEndpoint

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


class NotHeld(ProtocolError):
    """Raised when a member does not hold messages that it speaks of, or not any more."""

    code = ErrorCode.INVALID_RECORD_STATE

    def __init__(self, member: str, offsets: list[int]) -> None:
        super().__init__(f"not held by {member}: {len(offsets)} messages, the first {offsets[0]}")
        self.offsets = offsets


def topic_at(broker: Broker, place: Place) -> Topic:
    """The topic of a partition, or UnknownTopicId."""
    topic = broker.topics.by_id(place.topic_id)
    if topic is None:
        raise UnknownTopicId(f"there is no topic with the id {place.topic_id}")
    return topic


async def queue_at(broker: Broker, group: str, place: Place) -> Queue:
    """The queue of a group in a partition."""
    return await broker.sharing.queue(group, topic_at(broker, place), place.number)


async def settle(
    broker: Broker, group: str, member: str, place: Place, batches: Iterable[AcknowledgementBatch]
) -> ProtocolError | None:
    """Store what became of messages of a partition; returns what went wrong."""
    try:
        queue = await queue_at(broker, group, place)
        refused = await queue.settle(member, batches)
    except ProtocolError as error:
        broker.metrics.error(error.code.name.lower())
        return error
    if refused:
        return NotHeld(member, refused)
    return None


def leader_at(broker: Broker, place: Place) -> LeaderIdAndEpoch:
    """Who leads a partition, for a client that asked the wrong broker."""
    topic = broker.topics.by_id(place.topic_id)
    state = None if topic is None else broker.cluster.view.state(topic.name, place.number)
    if state is None:
        return LeaderIdAndEpoch()
    return LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.epoch)


def endpoints(
    broker: Broker, request: Request, leaders: Iterable[LeaderIdAndEpoch]
) -> list[NodeEndpoint]:
    """Where the leaders that an answer names are found."""
    wanted = {one.leader_id for one in leaders} - {NOBODY}
    return [
        NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack or None)
        for node in (broker.nodes_for(request.connection) if wanted else ())
        if node.id in wanted
    ]
