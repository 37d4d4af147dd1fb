"""OffsetDelete: forget some of a group's committed positions. Version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.groups import DeleteOffsetsRequest, DeleteOffsetsResult
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(
    broker: Broker, request: Request, body: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Forget the positions, unless the group still reads the topic."""
    keys = [(topic.name, one.partition_index) for topic in body.topics for one in topic.partitions]
    wanted = DeleteOffsetsRequest(body.group_id, tuple(keys))
    result: DeleteOffsetsResult = await broker.groups.ask(
        body.group_id, lambda c: lambda token, now: c.delete_offsets(token, wanted, now)
    )
    if result.error:
        return OffsetDeleteResponse(error_code=result.error)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=result.errors.get(
                            (topic.name, one.partition_index), ErrorCode.NONE
                        ),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )
