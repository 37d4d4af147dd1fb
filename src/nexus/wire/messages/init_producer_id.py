"""InitProducerId (key 22): gives an idempotent producer its id and epoch.

Version 2 has flexible fields, 3 lets a producer raise its own epoch, 4 can
answer that it was fenced.
"""

from __future__ import annotations

from nexus.wire.fields import int16, int32, int64, message, string


@message("0-4", flexible="2+")
class InitProducerIdRequest:
    """A producer that wants an id."""

    transactional_id: str | None = string(nullable="0+", default=None)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


@message("0-4", flexible="2+")
class InitProducerIdResponse:
    """Its id and epoch."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
