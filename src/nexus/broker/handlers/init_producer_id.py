"""InitProducerId: an identity for an idempotent producer. Versions 0 to 4.

Every call gets a new id. One that a client claims to have (version 3 and later) is not taken up:
without transactions nobody vouches for whose it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.wire.errors import ErrorCode, ProtocolError
from nexus.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


async def handle(
    broker: Broker, request: Request, body: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Hand out a new id."""
    if body.transactional_id is not None:
        return InitProducerIdResponse(
            error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_epoch=-1
        )
    try:
        return InitProducerIdResponse(
            producer_id=await broker.producer_ids.next(), producer_epoch=0
        )
    except ProtocolError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
