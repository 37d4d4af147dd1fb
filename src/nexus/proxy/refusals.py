"""What a broker's refusal of a message means to an HTTP client."""

from __future__ import annotations

from typing import Final

from nexus.proxy.errors import BodyTooLarge, QueueFull, Refused
from nexus.web.problems import BadParameter, NotFound, Problem
from nexus.wire.errors import ErrorCode

STALE_PRODUCER: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
_MEANINGS: Final[dict[int, type[Problem]]] = {
    ErrorCode.MESSAGE_TOO_LARGE: BodyTooLarge,
    ErrorCode.RECORD_LIST_TOO_LARGE: BodyTooLarge,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: NotFound,
    ErrorCode.INVALID_TOPIC_EXCEPTION: BadParameter,
    ErrorCode.INVALID_PARTITIONS: BadParameter,
    ErrorCode.INVALID_REPLICATION_FACTOR: BadParameter,
    ErrorCode.INVALID_CONFIG: BadParameter,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: QueueFull,
}


def refusal(code: int, said: str | None) -> Problem:
    """The problem that a client is told of."""
    try:
        name = ErrorCode(code).name.lower().replace("_", " ")
    except ValueError:
        name = f"error {code}"
    return _MEANINGS.get(code, Refused)(said or f"the broker says: {name}")
