"""CreatePartitions: a topic grows. Versions 0 to 3; it never shrinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.broker.handlers.create_topics import check_assignment
from nexus.wire.errors import InvalidReplicaAssignment, ProtocolError
from nexus.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(
    broker: Broker, request: Request, body: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Grow each topic."""
    return CreatePartitionsResponse(
        results=[await _grow(broker, topic, body.validate_only) for topic in body.topics]
    )


async def _grow(
    broker: Broker, wanted: CreatePartitionsTopic, validate_only: bool
) -> CreatePartitionsTopicResult:
    result = CreatePartitionsTopicResult(name=wanted.name)
    try:
        topic = broker.topics.check_growth(wanted.name, wanted.count)
        assignment = _assignment(broker, wanted, wanted.count - topic.count)
        if not validate_only:
            await broker.admin.grow(wanted.name, wanted.count, assignment)
    except ProtocolError as error:
        result.error_code = error.code
        result.error_message = str(error)
    return result


def _assignment(
    broker: Broker, wanted: CreatePartitionsTopic, added: int
) -> tuple[tuple[int, ...], ...]:
    """Who is to hold the new partitions; empty where the cluster decides."""
    if wanted.assignments is None:
        return ()
    assignment = tuple(tuple(one.broker_ids) for one in wanted.assignments)
    if len(assignment) != added:
        raise InvalidReplicaAssignment(f"{added} assignments are needed, one a new partition")
    check_assignment(broker, assignment)
    return assignment
