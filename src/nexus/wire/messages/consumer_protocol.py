"""What consumers put into a group's metadata and assignments, which the broker only shows.

Each is preceded by its version as an int16. Version 1 adds the partitions owned before a
cooperative rebalance, 2 the generation, 3 the rack.
"""

from __future__ import annotations

from nexus.wire.fields import Kind, array, binary, int32, message, string, structure


@structure
class TopicPartition:
    """One topic's partitions."""

    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@message("0-3")
class ConsumerProtocolSubscription:
    """What a consumer wants to read."""

    topics: list[str] = array(Kind.STRING)
    user_data: bytes | None = binary(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


@message("0-3")
class ConsumerProtocolAssignment:
    """What a consumer was given to read."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = binary(nullable="0+", default=None)
