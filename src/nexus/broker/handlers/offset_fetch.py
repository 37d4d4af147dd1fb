"""OffsetFetch: how far a group has read. Versions 1 to 7; no topics named means all, since 2."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.groups import FetchedOffset, FetchOffsetsRequest, TopicPartition
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(broker: Broker, request: Request, body: OffsetFetchRequest) -> OffsetFetchResponse:
    """Read the committed positions; -1 where there is none."""
    wanted: tuple[TopicPartition, ...] | None = None
    if body.topics is not None:
        wanted = tuple((t.name, index) for t in body.topics for index in t.partition_indexes)
    runner = await broker.groups.runner_for(body.group_id)
    result = runner.coordinator.fetch_offsets(FetchOffsetsRequest(body.group_id, wanted))
    offsets = dict(result.offsets)
    for missing in set(wanted or ()) - set(offsets):
        offsets[missing] = FetchedOffset()
    return OffsetFetchResponse(
        error_code=result.error,
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[_position(key[1], offsets[key], result.error) for key in keys],
            )
            for name, keys in groupby(sorted(offsets), key=lambda key: key[0])
        ],
    )


def _position(
    index: int, committed: FetchedOffset, error: ErrorCode
) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )
