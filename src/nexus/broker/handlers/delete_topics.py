"""DeleteTopics: by name, or since version 6 by id. Versions 1 to 6."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from nexus.broker.dispatch import Request
from nexus.wire.errors import ProtocolError, UnknownTopicId
from nexus.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

NO_ID = UUID(int=0)


async def handle(
    broker: Broker, request: Request, body: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Delete each topic, and what groups committed for it."""
    wanted = [(topic.name, topic.topic_id) for topic in body.topics]
    wanted += [(name, NO_ID) for name in body.topic_names]
    results = [await _delete(broker, name, topic_id) for name, topic_id in wanted]
    return DeleteTopicsResponse(responses=results)


async def _delete(broker: Broker, name: str | None, topic_id: UUID) -> DeletableTopicResult:
    result = DeletableTopicResult(name=name, topic_id=topic_id)
    try:
        if name is None:
            found = broker.topics.by_id(topic_id)
            if found is None:
                raise UnknownTopicId(f"no topic has the id {topic_id}")
            name = found.name
        result.name, result.topic_id = name, broker.topics.topic(name).topic_id
        await broker.admin.delete(name)
        broker.topic_deleted(name)
    except ProtocolError as error:
        result.error_code = error.code
        result.error_message = str(error)
    return result
