"""DeleteTopics (key 20): deletes topics and all their records.

Version 4 has flexible fields, 5 error messages, 6 names topics by id as well.
"""

from __future__ import annotations

from uuid import UUID

from nexus.wire.fields import Kind, array, int16, int32, message, string, structure, uuid


@structure
class DeleteTopicState:
    """A topic, by name or by id."""

    name: str | None = string(nullable="0+", default=None)
    topic_id: UUID = uuid()


@message("1-6", flexible="4+")
class DeleteTopicsRequest:
    """Topics to delete."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(Kind.STRING, "0-5")
    timeout_ms: int = int32()


@structure
class DeletableTopicResult:
    """One topic's outcome."""

    name: str | None = string(nullable="6+")
    topic_id: UUID = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None)


@message("1-6", flexible="4+")
class DeleteTopicsResponse:
    """Which topics were deleted."""

    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
