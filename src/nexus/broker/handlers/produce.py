"""Produce: append batches, and acknowledge them when they are as safe as `acks` asks.

Versions 3 to 9. acks=0 gets no response, acks=1 one after the append, acks=all one after the
flush that `fsync: commit` promises. A batch is appended from the bytes that were received; only a
topic that recompresses, or one that must see every key, makes the broker look inside, and it does
so off the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from nexus.broker.dispatch import NO_RESPONSE, Request
from nexus.broker.partition import Partition
from nexus.broker.topics import Topic
from nexus.wire.batch import BatchHeader, check_from_client, read_header
from nexus.wire.compression import Codec
from nexus.wire.errors import (
    ErrorCode,
    InvalidRecord,
    PolicyViolation,
    ProtocolError,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from nexus.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from nexus.wire.records import iter_keys, recompress

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
ZSTD_SINCE_VERSION = 7


def handle(broker: Broker, request: Request, body: ProduceRequest) -> Any:
    """Append everything in the request; the answer may have to wait for the disk."""
    refusal = _refusal(body)
    work = _Work(broker, request.version, body.acks)
    responses = []
    for topic_data in body.topic_data:
        topic = broker.topics.find(topic_data.name)
        answers = [
            work.append(topic, data) if refusal is None else _failed(data.index, refusal)
            for data in topic_data.partition_data
        ]
        responses.append(TopicProduceResponse(name=topic_data.name, partition_responses=answers))
    response = ProduceResponse(responses=responses)
    if body.acks == ACKS_NONE:
        return _unanswered(broker, request, response, work.waits)
    return response if not work.waits else _when_safe(response, work.waits)


def _refusal(body: ProduceRequest) -> ProtocolError | None:
    if body.transactional_id is not None:
        return TransactionsUnsupported("transactions are not supported")
    if body.acks not in {ACKS_NONE, ACKS_LEADER, ACKS_ALL}:
        return InvalidRequiredAcks(f"acks={body.acks}; 0, 1 and all (-1) are possible")
    return None


class TransactionsUnsupported(ProtocolError):
    """Raised when a client asks for a transaction."""

    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class InvalidRequiredAcks(ProtocolError):
    """Raised when acks is none of 0, 1 and all."""

    code = ErrorCode.INVALID_REQUIRED_ACKS


class _Work:
    """One request's appends, and what its answer has to wait for."""

    __slots__ = ("_acks", "_broker", "_version", "waits")

    def __init__(self, broker: Broker, version: int, acks: int) -> None:
        self._broker = broker
        self._version = version
        self._acks = acks
        self.waits: list[Coroutine[Any, Any, None]] = []

    def append(self, topic: Topic | None, data: PartitionProduceData) -> PartitionProduceResponse:
        """Append to one partition."""
        answer = PartitionProduceResponse(index=data.index)
        try:
            topic, partition = _writable(topic, data.index)
            batch = data.records
            if not batch:
                raise InvalidRecord("there are no records")
            header = check_from_client(batch)
            if header.codec == Codec.ZSTD and self._version < ZSTD_SINCE_VERSION:
                raise UnsupportedCompressionType("zstd needs version 7 of Produce or later")
            if _must_look_inside(topic, header) or partition.append_lock.locked():
                # The receive buffer is used again as soon as we return: this needs its own.
                self.waits.append(self._append_slowly(topic, partition, bytearray(batch), answer))
                return answer
            wait = self._write(topic, partition, batch, header, answer)
            if wait is not None:
                self.waits.append(_guarded(wait, answer))
        except ProtocolError as error:
            self._fail(answer, error)
        return answer

    async def _append_slowly(
        self, topic: Topic, partition: Partition, batch: bytearray, answer: PartitionProduceResponse
    ) -> None:
        try:
            async with partition.append_lock:
                ready = await self._broker.off_loop(_prepare, topic, memoryview(batch))
                wait = self._write(topic, partition, ready, read_header(ready), answer)
            if wait is not None:
                await wait
        except ProtocolError as error:
            self._fail(answer, error)

    def _write(
        self,
        topic: Topic,
        partition: Partition,
        batch: memoryview,
        header: BatchHeader,
        answer: PartitionProduceResponse,
    ) -> asyncio.Future[None] | None:
        appended = partition.append(batch, header)
        topic.traffic.appended(header)
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.append_time_ms
        answer.log_start_offset = partition.log.start_offset
        return partition.when_safe(appended.last_offset + 1) if self._acks == ACKS_ALL else None

    def _fail(self, answer: PartitionProduceResponse, error: ProtocolError) -> None:
        self._broker.metrics.error(error.code.name.lower())
        _fail(answer, error)


def _writable(topic: Topic | None, index: int) -> tuple[Topic, Partition]:
    if topic is None or not 0 <= index < len(topic.partitions):
        raise UnknownTopicOrPartition(f"there is no partition {index} of that topic")
    if topic.is_internal:
        raise PolicyViolation(f"{topic.name} belongs to the broker")
    return topic, topic.partitions[index]


def _must_look_inside(topic: Topic, header: BatchHeader) -> bool:
    return topic.is_compacted or (topic.codec is not None and topic.codec != header.codec)


def _prepare(topic: Topic, batch: memoryview) -> memoryview:
    """Check keys and recompress, as the topic wants; runs on a worker thread."""
    if topic.is_compacted:
        for key in iter_keys(batch):
            if key.key is None:
                raise InvalidRecord("a compacted topic takes only records with a key")
    if topic.codec is None:
        return batch
    return memoryview(recompress(batch, topic.codec))


async def _guarded(wait: asyncio.Future[None], answer: PartitionProduceResponse) -> None:
    try:
        await wait
    except ProtocolError as error:
        _fail(answer, error)


async def _when_safe(
    response: ProduceResponse, waits: list[Coroutine[Any, Any, None]]
) -> ProduceResponse:
    if len(waits) == 1:
        await waits[0]
    else:
        await asyncio.gather(*waits)
    return response


def _unanswered(
    broker: Broker,
    request: Request,
    response: ProduceResponse,
    waits: list[Coroutine[Any, Any, None]],
) -> Any:
    """acks=0: nobody listens, so a client learns of an error by losing its connection."""
    if any(answer.error_code for answer in _answers(response)):
        request.connection.close()
    for wait in waits:
        broker.dispatcher.later(wait)
    return NO_RESPONSE


def _answers(response: ProduceResponse) -> Iterator[PartitionProduceResponse]:
    for topic in response.responses:
        yield from topic.partition_responses


def _failed(index: int, error: ProtocolError) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=index)
    _fail(answer, error)
    return answer


def _fail(answer: PartitionProduceResponse, error: ProtocolError) -> None:
    answer.error_code = error.code
    answer.error_message = str(error)
    answer.base_offset = -1
