"""Fetch: whole batches from given offsets, as slices of the log's files.

Versions 4 to 12. A fetch that finds less than `min_bytes` waits for more, at most `max_wait_ms`.
Readers see only what lies below the high watermark. Incremental sessions are not offered: a full
fetch of many partitions is cheap to decode, and the clients that ask for sessions do without.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nexus.broker.dispatch import Deferred, Request
from nexus.broker.outbox import SENDFILE_BYTES_MIN
from nexus.broker.partition import Partition
from nexus.broker.topics import Topic
from nexus.log import FileSlice
from nexus.wire.compression import Codec
from nexus.wire.errors import ErrorCode, ProtocolError, UnsupportedCompressionType
from nexus.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

ZSTD_SINCE_VERSION: Final = 10
RESPONSE_BYTES_MAX: Final = 64 << 20
# However long a client wants to wait, it gets an answer, if an empty one, within this time.
WAIT_SECONDS_MAX: Final = 60.0
# Below this much in one response, small slices are read and sent with the rest in one call.
COPIED_BYTES_MAX: Final = 1 << 20


# What is sent of a topic from the fetched offset on, and the answer that it belongs to.
Slice = tuple[Topic, int, PartitionData, FileSlice]


@dataclass(slots=True)
class Found:
    """What one look at the log gave."""

    response: FetchResponse
    slices: list[Slice]
    partitions: list[Partition]
    bytes: int
    has_error: bool


def handle(broker: Broker, request: Request, body: FetchRequest) -> Any:
    """Answer with what is there, or wait for it."""
    if body.session_id != 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    found = _look(broker, request, body)
    if found.bytes >= body.min_bytes or found.has_error or body.max_wait_ms <= 0:
        return _finish(broker, found)
    return _LongPoll(broker, request, body, found.partitions).answer


class _LongPoll:
    """One fetch that waits for data, woken by the partitions it asks for, at the latest by time."""

    __slots__ = ("_body", "_broker", "_is_woken", "_partitions", "_request", "_timer", "answer")

    def __init__(
        self, broker: Broker, request: Request, body: FetchRequest, partitions: list[Partition]
    ) -> None:
        self._broker = broker
        self._request = request
        self._body = body
        self._partitions = partitions
        self._is_woken = False
        self.answer = Deferred()
        for partition in partitions:
            partition.watchers.add(self._wake)
        broker.long_polls.add(self._give_up)
        seconds = min(body.max_wait_ms / 1000, WAIT_SECONDS_MAX)
        self._timer = broker.loop.call_later(seconds, self._give_up)

    def _wake(self) -> None:
        # Once for all the batches that the event loop has at hand.
        if not self._is_woken:
            self._is_woken = True
            self._broker.loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._is_woken = False
        if self.answer.is_given:
            return
        found = _look(self._broker, self._request, self._body)
        enough = found.bytes >= self._body.min_bytes or found.has_error
        if enough or self._request.connection.is_closed:
            self._end(found)

    def _give_up(self) -> None:
        if not self.answer.is_given:
            self._end(_look(self._broker, self._request, self._body))

    def _end(self, found: Found) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.watchers.discard(self._wake)
        self._broker.long_polls.discard(self._give_up)
        result = _finish(self._broker, found)
        if isinstance(result, FetchResponse):
            self.answer.resolve(result)
        else:
            self.answer.is_given = True
            self._broker.dispatcher.later(self._resolve(result))

    async def _resolve(self, result: Coroutine[Any, Any, FetchResponse]) -> None:
        self.answer.resolve(await result)


def _look(broker: Broker, request: Request, body: FetchRequest) -> Found:
    found = Found(FetchResponse(), [], [], 0, has_error=False)
    room = min(body.max_bytes, RESPONSE_BYTES_MAX)
    for wanted in body.topics:
        topic = broker.topics.find(wanted.topic)
        answers = []
        for part in wanted.partitions:
            answer = PartitionData(partition_index=part.partition, records=b"")
            answers.append(answer)
            if topic is None or not 0 <= part.partition < len(topic.partitions):
                _fail(found, answer, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            partition = topic.partitions[part.partition]
            found.partitions.append(partition)
            try:
                if topic.codec == Codec.ZSTD and request.version < ZSTD_SINCE_VERSION:
                    raise UnsupportedCompressionType("zstd needs version 10 of Fetch or later")
                piece = _read(partition, part, answer, room - found.bytes, found)
                if piece is not None:
                    found.slices.append((topic, part.fetch_offset, answer, piece))
                    found.bytes += piece.size
            except ProtocolError as error:
                broker.metrics.error(error.code.name.lower())
                _fail(found, answer, error.code)
        found.response.responses.append(
            FetchableTopicResponse(topic=wanted.topic, partitions=answers)
        )
    return found


def _fail(found: Found, answer: PartitionData, code: ErrorCode) -> None:
    answer.error_code = code
    answer.high_watermark = -1
    found.has_error = True


def _read(
    partition: Partition, wanted: FetchPartition, answer: PartitionData, room: int, found: Found
) -> FileSlice | None:
    partition.check_epoch(wanted.current_leader_epoch)
    partition.check_online()
    answer.high_watermark = answer.last_stable_offset = partition.high_watermark
    answer.log_start_offset = partition.log.start_offset
    if room <= 0 and found.bytes:
        return None
    limit = min(wanted.partition_max_bytes, max(room, 0))
    # The first batch is sent whatever its size: a limit below it must not stop a consumer.
    piece = partition.log.read(
        wanted.fetch_offset, limit, partition.high_watermark, at_least_one=found.bytes == 0
    )
    answer.records = piece or b""
    return piece


def _finish(broker: Broker, found: Found) -> Any:
    """The response, once what it sends is in memory: at once, or after a thread has read it."""
    for topic, fetch_offset, _, piece in found.slices:
        topic.traffic.read(piece.next_offset - fetch_offset, piece.size)
    cold = _bring_in(found.slices)
    return _finish_later(broker, found, cold) if cold else found.response


async def _finish_later(broker: Broker, found: Found, cold: list[Slice]) -> FetchResponse:
    await broker.off_loop(_warm, [piece for *_, piece in cold])
    _bring_in(cold)
    return found.response


def _bring_in(slices: list[Slice]) -> list[Slice]:
    """Read what is too small to be worth a `sendfile` of its own; returns what would wait.

    A slice that was read in vain stays one and is sent from its file.
    """
    cold = []
    copied = 0
    for slice_ in slices:
        _, _, answer, piece = slice_
        if piece.size >= SENDFILE_BYTES_MIN or copied + piece.size > COPIED_BYTES_MAX:
            if not piece.resident():
                cold.append(slice_)
            continue
        copied += piece.size
        data = piece.read_resident()
        if data is None:
            cold.append(slice_)
        else:
            answer.records = data
    return cold


def _warm(pieces: list[FileSlice]) -> None:
    """Bring slices into the page cache, so that sending them does not block the event loop."""
    for piece in pieces:
        piece.warm()
