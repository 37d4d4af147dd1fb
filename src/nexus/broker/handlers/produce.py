"""Produce: append batches, and acknowledge them when they are as safe as `acks` asks.

Versions 3 to 9. acks=0 gets no response, acks=1 one after the append, acks=all one after the
flush that `fsync: commit` promises, here and at every replica that is in sync. A batch is appended
from the bytes that were received; only a topic that recompresses, or one that must see every key,
makes the broker look inside, and it does so off the event loop. What is not safe in time is
answered with REQUEST_TIMED_OUT and stays appended.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from nexus.broker.dispatch import NO_RESPONSE, Deferred, Request
from nexus.broker.partition import Partition
from nexus.broker.topics import NO_DEPTH_MAX, Topic
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
        return _unanswered(request, response)
    return work.answer_with(response, body.timeout_ms)


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
    """One request's appends, and how many of them its answer still waits for."""

    __slots__ = ("_acks", "_answer", "_broker", "_response", "_timer", "_version", "_waiting")

    def __init__(self, broker: Broker, version: int, acks: int) -> None:
        self._broker = broker
        self._version = version
        self._acks = acks
        self._waiting = 0
        self._answer: Deferred | None = None
        self._response: ProduceResponse | None = None
        self._timer: TimerHandle | None = None

    def append(self, topic: Topic | None, data: PartitionProduceData) -> PartitionProduceResponse:
        """Append to one partition."""
        answer = PartitionProduceResponse(index=data.index)
        try:
            topic, partition = _writable(topic, data.index, self._acks)
            if topic.queue_depth_max != NO_DEPTH_MAX:
                self._broker.sharing.check_depth(topic)
            batch = data.records
            if not batch:
                raise InvalidRecord("there are no records")
            header = check_from_client(batch)
            if header.codec == Codec.ZSTD and self._version < ZSTD_SINCE_VERSION:
                raise UnsupportedCompressionType("zstd needs version 7 of Produce or later")
            if _must_look_inside(topic, header) or partition.append_lock.locked():
                self._waiting += 1
                # The receive buffer is used again as soon as we return: this needs its own.
                own = bytearray(batch)
                self._expect(answer)
                answer.base_offset = -1
                self._broker.dispatcher.later(self._append_slowly(topic, partition, own, answer))
            else:
                self._write(topic, partition, batch, header, answer)
        except ProtocolError as error:
            self._fail(answer, error)
        return answer

    def answer_with(self, response: ProduceResponse, timeout_ms: int) -> ProduceResponse | Deferred:
        """The response, now or when everything in it is as safe as it was asked to be, or late."""
        if not self._waiting:
            return response
        self._response = response
        self._answer = Deferred()
        self._timer = self._broker.loop.call_later(max(timeout_ms, 0) / 1000, self._is_late)
        return self._answer

    async def _append_slowly(
        self, topic: Topic, partition: Partition, batch: bytearray, answer: PartitionProduceResponse
    ) -> None:
        try:
            async with partition.append_lock:
                ready = await self._broker.off_loop(_prepare, topic, memoryview(batch))
                self._write(topic, partition, ready, read_header(ready), answer)
        except ProtocolError as error:
            self._fail(answer, error)
        finally:
            self._done()

    def _write(
        self,
        topic: Topic,
        partition: Partition,
        batch: memoryview,
        header: BatchHeader,
        answer: PartitionProduceResponse,
    ) -> None:
        appended = partition.append(batch, header)
        topic.traffic.appended(header)
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.append_time_ms
        answer.log_start_offset = partition.log.start_offset
        answer.error_code = ErrorCode.NONE
        if self._acks == ACKS_ALL:
            then = partial(self._safe, answer)
            if partition.when_safe(appended.last_offset + 1, then):
                self._waiting += 1
                self._expect(answer)

    def _expect(self, answer: PartitionProduceResponse) -> None:
        """Until it is known what became of a batch, this is what its client would be told."""
        if self._acks != ACKS_NONE:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT

    def _safe(self, answer: PartitionProduceResponse, error: ProtocolError | None) -> None:
        if error is None:
            answer.error_code = ErrorCode.NONE
        else:
            self._fail(answer, error)
        self._done()

    def _done(self) -> None:
        self._waiting -= 1
        if not self._waiting and self._answer is not None and not self._answer.is_given:
            if self._timer is not None:
                self._timer.cancel()
            self._answer.resolve(self._response)

    def _is_late(self) -> None:
        assert self._answer is not None
        self._broker.metrics.error(ErrorCode.REQUEST_TIMED_OUT.name.lower())
        self._answer.resolve(self._response)

    def _fail(self, answer: PartitionProduceResponse, error: ProtocolError) -> None:
        self._broker.metrics.error(error.code.name.lower())
        _fail(answer, error)


def _writable(topic: Topic | None, index: int, acks: int) -> tuple[Topic, Partition]:
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no partition {index} of that topic")
    if topic.is_internal:
        raise PolicyViolation(f"{topic.name} belongs to the broker")
    partition = topic.partition(index)
    partition.check_writable(by_all=acks == ACKS_ALL)
    return topic, partition


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


def _unanswered(request: Request, response: ProduceResponse) -> Any:
    """acks=0: nobody listens, so a client learns of an error by losing its connection."""
    if any(answer.error_code for answer in _answers(response)):
        request.connection.close()
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
