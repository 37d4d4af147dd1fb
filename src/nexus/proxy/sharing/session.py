"""A share session at one broker: takes messages from the partitions that the broker leads."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from uuid import UUID

from nexus.proxy.broker import Broker
from nexus.proxy.errors import BrokerAway
from nexus.wire.apis import ApiKey
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)

VERSION: Final = 2
BYTES_MAX: Final = 4 << 20
NOTHING: Final = -1  # but news of what others settled
ANSWER_S: Final = 10.0  # beyond the wait that was asked for
_EPOCH_MAX: Final = 2**31 - 1


class Most(NamedTuple):
    """How much a fetch may bring."""

    messages: int
    size: int  # in bytes; one message may be larger


class Session:
    """One connection of its own; when it ends, what was taken over it is free again."""

    def __init__(self, broker: Broker, group: str, member: str, *, is_detached: bool) -> None:
        self._broker = broker
        self._group = group
        self._member = member
        self._is_detached = is_detached
        self._epoch = 0
        self._partitions: set[int] = set()
        self.hold_s = 0.0  # for which the last messages are held

    async def fetch(
        self, topic_id: UUID, partitions: set[int], most: Most, wait_ms: int
    ) -> list[Any]:
        """What the broker says of each partition; BrokerAway when it says nothing."""
        request = self._request(topic_id, partitions, most, wait_ms)
        try:
            answer = await self._broker.poll(
                self, ApiKey.SHARE_FETCH, VERSION, request, wait_ms / 1000 + ANSWER_S
            )
        except BrokerAway:
            self._epoch = 0
            raise
        if answer.error_code != ErrorCode.NONE:
            self.close()
            raise BrokerAway(answer.error_message or f"error {answer.error_code}")
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        self._partitions = set(partitions)
        self.hold_s = answer.acquisition_lock_timeout_ms / 1000
        return [part for topic in answer.responses for part in topic.partitions]

    def close(self) -> None:
        """End it; safe to call twice."""
        self._epoch = 0
        self._broker.end_poll(self)

    def _request(
        self, topic_id: UUID, partitions: set[int], most: Most, wait_ms: int
    ) -> ShareFetchRequest:
        known = self._partitions if self._epoch else set()
        new = [FetchPartition(partition_index=n) for n in sorted(partitions - known)]
        old = sorted(known - partitions)
        return ShareFetchRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=self._epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=min(most.size, BYTES_MAX),
            max_records=most.messages or NOTHING,
            batch_size=most.messages,
            topics=[FetchTopic(topic_id=topic_id, partitions=new)] if new else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=topic_id, partitions=old)]
            if old
            else [],
            is_detached=self._is_detached,
        )
