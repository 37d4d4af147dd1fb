"""CreatePartitions: a topic grows. Versions 0 to 3; it never shrinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
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
        _check_assignments(broker, wanted, wanted.count - len(topic.partitions))
        if not validate_only:
            await broker.topics.add_partitions(wanted.name, wanted.count)
    except ProtocolError as error:
        result.error_code = error.code
        result.error_message = str(error)
    return result


def _check_assignments(broker: Broker, wanted: CreatePartitionsTopic, added: int) -> None:
    if wanted.assignments is None:
        return
    everyone = [broker.settings.broker.id]
    if len(wanted.assignments) != added or any(
        a.broker_ids != everyone for a in wanted.assignments
    ):
        raise InvalidReplicaAssignment(
            f"{added} assignments are needed, each to broker {everyone[0]}"
        )
