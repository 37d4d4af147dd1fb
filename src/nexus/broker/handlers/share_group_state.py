"""ReadShareGroupState and WriteShareGroupState: another broker asks for what is kept here.

Version 0 of both. The partition of the state topic is computed here again, so that a broker with
another view of the cluster is refused. A read without a group asks which groups there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from nexus.broker.dispatch import Request as Asked
from nexus.broker.sharing.state_client import from_batches, to_batches
from nexus.groups.sharing.state_log import StateKey
from nexus.wire.errors import ProtocolError, UnknownTopicId
from nexus.wire.messages import read_share_group_state as reading
from nexus.wire.messages import write_share_group_state as writing

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


Request = reading.ReadShareGroupStateRequest | writing.WriteShareGroupStateRequest


async def handle(broker: Broker, request: Asked, body: Request) -> Any:
    """Answer with what is stored, or when it is."""
    is_read = isinstance(body, reading.ReadShareGroupStateRequest)
    done: Callable[..., Any] = _read if is_read else _write
    result: Callable[..., Any] = reading.ReadStateResult if is_read else writing.WriteStateResult
    results = []
    for topic in body.topics:
        partitions = [
            await done(broker, StateKey(body.group_id, topic.topic_id, one.partition), one)
            for one in topic.partitions
        ]
        results.append(result(topic_id=topic.topic_id, partitions=partitions))
    if is_read:
        return reading.ReadShareGroupStateResponse(results=results)
    return writing.WriteShareGroupStateResponse(results=results)


async def _read(
    broker: Broker, key: StateKey, one: reading.PartitionData
) -> reading.PartitionResult:
    result = reading.PartitionResult(partition=one.partition)
    try:
        place = await _place(broker, key.topic_id, key.partition)
        if not key.group:
            result.groups = broker.sharing.states.groups(place, key.topic_id, key.partition)
            return result
        state = await broker.sharing.states.read(place, key, one.leader_epoch)
    except ProtocolError as error:
        result.error_code, result.error_message = error.code, str(error)
        return result
    result.start_offset, result.state_batches = state.start, to_batches(state)
    return result


async def _write(
    broker: Broker, key: StateKey, one: writing.PartitionData
) -> writing.PartitionResult:
    result = writing.PartitionResult(partition=one.partition)
    try:
        place = await _place(broker, key.topic_id, key.partition)
        change = from_batches(one.start_offset, one.state_batches)
        await broker.sharing.states.write(place, key, one.leader_epoch, change)
    except ProtocolError as error:
        result.error_code, result.error_message = error.code, str(error)
    return result


async def _place(broker: Broker, topic_id: UUID, index: int) -> int:
    topic = broker.topics.by_id(topic_id)
    if topic is None:
        raise UnknownTopicId(f"there is no topic with the id {topic_id}")
    return await broker.sharing.states.place(topic.name, topic_id, index)
