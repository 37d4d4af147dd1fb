"""A member of a share group by hand: one connection, one session, as a proxy would speak."""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import UUID, uuid4

from nexus.wire.apis import APIS, ApiKey
from nexus.wire.batch import iter_headers
from nexus.wire.codec import decode_prefix, encode
from nexus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from nexus.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from nexus.wire.messages.share_fetch import (
    AcknowledgementBatch,
    AcknowledgeType,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from nexus.wire.records import Record, iter_records
from support.rawwire import RawConnection, framed, request_header
from support.waiting import wait_until

PASSING = {14, 15, 6, 5}  # loading, not available, not the leader: ask again


class Delivered(NamedTuple):
    """A message that a member holds."""

    partition: int
    record: Record
    attempt: int

    @property
    def offset(self) -> int:
        return self.record.offset


class Member:
    """Takes messages of one topic at one broker, and says what became of them."""

    def __init__(self, port: int, group: str, topic: str, member: str | None = None) -> None:
        self.id = member or str(uuid4())
        self._connection = RawConnection(port, timeout=60)
        self._group = group
        self._epoch = 0
        self.topic_id: UUID = wait_until(lambda: self._found(topic), within=20)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """What a process that dies does."""
        self._connection.socket.close()

    def ask(self, key: ApiKey, version: int, body: object) -> Any:
        """Any request that has a flexible header."""
        head = request_header(key, version) + b"\0"
        self._connection.send(framed(head + bytes(encode(body, version))))
        answer = self._connection.receive()
        assert answer is not None, "the broker hung up"
        return decode_prefix(APIS[key].response, memoryview(answer), version, 5)[0]

    def _found(self, topic: str) -> Any:
        """The topic's id, once every partition has a leader."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        answer = self.ask(ApiKey.METADATA, 12, request).topics[0]
        leaderless = [one for one in answer.partitions if one.leader_id < 0]
        return None if answer.error_code or leaderless else answer.topic_id

    def fetch(
        self,
        most: int = 500,
        wait_ms: int = 2000,
        partitions: tuple[int, ...] = (0,),
        **fields: Any,
    ) -> Any:
        """The answer to one ShareFetch."""
        places = [FetchPartition(partition_index=one) for one in partitions]
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self.id,
            share_session_epoch=self._epoch,
            max_wait_ms=wait_ms,
            max_records=most,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=places)],
            **fields,
        )
        answer = self.ask(ApiKey.SHARE_FETCH, 2, request)
        if not answer.error_code:
            self._epoch += 1
        return answer

    def take(self, most: int = 500, **fields: Any) -> list[Delivered]:
        """Messages that this member holds now; waits for the broker to be able to give some."""

        def answered() -> Any:
            answer = self.fetch(most, **fields)
            assert not answer.error_code, answer
            codes = {p.error_code for t in answer.responses for p in t.partitions} - {0}
            assert codes <= PASSING, answer
            return None if codes else answer

        answer = wait_until(answered, within=30)
        return [
            one for topic in answer.responses for part in topic.partitions for one in _meant(part)
        ]

    def take_all(self, count: int, **fields: Any) -> list[Delivered]:
        """So many messages, in as many calls as it takes."""
        taken: list[Delivered] = []

        def enough() -> bool:
            taken.extend(self.take(count - len(taken), **fields))
            return len(taken) >= count

        wait_until(enough, within=60, what=f"{count} messages")
        return taken

    def settle(
        self,
        offsets: list[int],
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
        *,
        member: str | None = None,
        partition: int = 0,
        **fields: Any,
    ) -> int:
        """Say what became of messages, outside of any session; the error code."""
        batches = [
            AcknowledgementBatch(
                first_offset=offset, last_offset=offset, acknowledge_types=[kind], **fields
            )
            for offset in offsets
        ]
        said = AcknowledgePartition(partition_index=partition, acknowledgement_batches=batches)
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=member or self.id,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=[said])],
        )
        answer = self.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, request)
        code: int = answer.error_code or answer.responses[0].partitions[0].error_code
        return code


def _meant(part: Any) -> list[Delivered]:
    attempts = {
        offset: run.delivery_count
        for run in part.acquired_records
        for offset in range(run.first_offset, run.last_offset + 1)
    }
    data = memoryview(bytes(part.records or b""))
    records = [
        record for at, h in iter_headers(data) for record in iter_records(data[at : at + h.size])
    ]
    found = [
        Delivered(part.partition_index, record, attempts.pop(record.offset))
        for record in records
        if record.offset in attempts
    ]
    assert not attempts, f"acquired but not sent: {attempts}"
    return found
