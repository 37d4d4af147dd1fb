"""DeleteRecords: everything before an offset goes. Versions 0 to 2; -1 is the high watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.broker.partition import NO_EPOCH
from nexus.wire.errors import OffsetOutOfRange, PolicyViolation, ProtocolError
from nexus.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

HIGH_WATERMARK: Final = -1


async def handle(
    broker: Broker, request: Request, body: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Raise the start of each partition."""
    topics = []
    for topic in body.topics:
        results = [await _delete(broker, topic.name, one) for one in topic.partitions]
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return DeleteRecordsResponse(topics=topics)


async def _delete(
    broker: Broker, name: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    try:
        partition = broker.topics.partition(name, wanted.partition_index)
        partition.check_readable(NO_EPOCH)
        if broker.topics.topic(name).is_internal or not partition.log.config.delete:
            raise PolicyViolation(f"{name} is compacted, not deleted from")
        end = partition.high_watermark
        offset = end if wanted.offset == HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset} lies outside of 0 to {end}")
        result.low_watermark = await broker.off_loop(partition.log.delete_before, offset)
    except ProtocolError as error:
        result.error_code = error.code
    return result
