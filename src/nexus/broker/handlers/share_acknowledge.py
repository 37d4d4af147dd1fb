"""ShareAcknowledge: what became of messages that a member holds. Versions 1 and 2.

Answered when it is durable. Epoch 0 needs no session: whoever names the member speaks for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.broker.sharing.sessions import CLOSE, OPEN, Place, SessionKey
from nexus.broker.sharing.settling import NotHeld, endpoints, leader_at, settle
from nexus.wire.errors import ErrorCode, ProtocolError
from nexus.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from nexus.wire.messages.share_fetch import AcknowledgeType

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(
    broker: Broker, request: Request, body: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    """Store all of it, and say for each partition whether that went well."""
    key = SessionKey(body.group_id or "", body.member_id or "")
    sharing, session = broker.sharing, None
    try:
        if body.share_session_epoch != OPEN:
            session = sharing.sessions.follow(key, body.share_session_epoch, request.connection)
    except ProtocolError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=str(error))
    answers = await asyncio.gather(
        *(
            asyncio.gather(
                *(
                    _settled(
                        broker,
                        key,
                        Place(t.topic_id, p.partition_index),
                        p,
                        is_by_others=session is None,
                    )
                    for p in t.partitions
                )
            )
            for t in body.topics
        )
    )
    if session is not None and body.share_session_epoch == CLOSE:
        sharing.session_over(session)
    responses = [
        ShareAcknowledgeTopicResponse(topic_id=topic.topic_id, partitions=list(partitions))
        for topic, partitions in zip(body.topics, answers, strict=True)
    ]
    moved = [p.current_leader for one in answers for p in one if p.error_code]
    return ShareAcknowledgeResponse(
        responses=responses, node_endpoints=endpoints(broker, request, moved)
    )


async def _settled(
    broker: Broker,
    key: SessionKey,
    place: Place,
    said: AcknowledgePartition,
    *,
    is_by_others: bool,
) -> PartitionData:
    answer = PartitionData(partition_index=place.number)
    if is_by_others:
        # Before anything is free: what the member then takes again must not seem settled to it.
        broker.sharing.sessions.settled_by_others(key, place, _offsets(said))
    error = await settle(broker, key.group, key.member, place, said.acknowledgement_batches)
    if isinstance(error, NotHeld):
        answer.not_held = error.offsets
    if error is not None:
        answer.error_code, answer.error_message = error.code, str(error)
        if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            answer.current_leader = leader_at(broker, place)
    return answer


def _offsets(said: AcknowledgePartition) -> set[int]:
    """The messages that are not the member's any more."""
    return {
        offset
        for batch in said.acknowledgement_batches
        if AcknowledgeType.RENEW not in batch.acknowledge_types
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
