"""CreatePartitions (key 37): raises the number of a topic's partitions.

Version 2 has flexible fields, 3 may answer that a quota was exceeded.
"""

from __future__ import annotations

from nexus.wire.fields import Kind, array, boolean, int16, int32, message, string, structure


@structure
class CreatePartitionsAssignment:
    """Where one new partition shall live."""

    broker_ids: list[int] = array(Kind.INT32)


@structure
class CreatePartitionsTopic:
    """One topic's new number of partitions."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )


@message("0-3", flexible="2+")
class CreatePartitionsRequest:
    """Topics' new numbers of partitions."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@structure
class CreatePartitionsTopicResult:
    """One topic's outcome."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@message("0-3", flexible="2+")
class CreatePartitionsResponse:
    """Which topics were changed."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
