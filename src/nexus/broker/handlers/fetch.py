"""Fetch: whole batches from given offsets, as slices of the log's files.

Versions 4 to 12. A fetch that finds less than `min_bytes` waits for more, at most `max_wait_ms`.
Readers see only what lies below the high watermark; replicas see all, and say by their offset what
they have. Incremental sessions are not offered: a full
fetch of many partitions is cheap to decode, and the clients that ask for sessions do without.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nexus.broker.dispatch import Deferred, Request
from nexus.broker.outbox import SENDFILE_BYTES_MIN
from nexus.broker.partition import Partition, Wake
from nexus.broker.topics import Topic
from nexus.log import FileSlice
from nexus.log.mending import check_batches, check_slice
from nexus.wire.compression import Codec
from nexus.wire.errors import (
    ErrorCode,
    ProtocolError,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from nexus.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

ZSTD_SINCE_VERSION: Final = 10
# Who asks with this replica id compares replicas: it may read from any, below the watermark.
COMPARING: Final = -2
RESPONSE_BYTES_MAX: Final = 64 << 20
# However long a client wants to wait, it gets an answer, if an empty one, within this time.
WAIT_SECONDS_MAX: Final = 60.0
# Below this much in one response, small slices are read and sent with the rest in one call.
COPIED_BYTES_MAX: Final = 1 << 20


def handle(broker: Broker, request: Request, body: FetchRequest) -> Any:
    """Answer with what is there, or wait for it."""
    if body.session_id != 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    found = _Found(broker, request, body)
    if found.is_enough or body.max_wait_ms <= 0:
        return _finish(broker, found)
    return _LongPoll(broker, request, found, body.max_wait_ms).answer


@dataclass(slots=True)
class _Share:
    """One partition's part in a fetch: what is wanted, and what was found of it."""

    topic: Topic
    partition: Partition
    wanted: FetchPartition
    answer: PartitionData
    piece: FileSlice | None = None
    is_replica: bool = False
    is_comparing: bool = False
    end: int = -1  # of what could be read at the last look

    @property
    def readable_end(self) -> int:
        """Up to where can be read now: replicas copy what is not safe yet, too."""
        partition = self.partition
        return partition.log.end_offset if self.is_replica else partition.high_watermark

    @property
    def has_changed(self) -> bool:
        """Whether a second look may find something else than the first."""
        partition = self.partition
        return (
            self.readable_end != self.end
            or not partition.is_leader
            or partition.log.failure is not None
            or partition.is_retired
        )


class _Found:
    """What a fetch has found so far."""

    __slots__ = (
        "_broker",
        "_min_bytes",
        "_replica",
        "_room",
        "_version",
        "bytes",
        "has_error",
        "response",
        "shares",
    )

    def __init__(self, broker: Broker, request: Request, body: FetchRequest) -> None:
        self._broker = broker
        self._version = request.version
        self._min_bytes = body.min_bytes
        self._replica = body.replica_id
        self._room = min(body.max_bytes, RESPONSE_BYTES_MAX)
        self.bytes = 0
        self.has_error = False
        self.shares: list[_Share] = []
        self.response = FetchResponse(
            responses=[
                FetchableTopicResponse(topic=wanted.topic, partitions=self._answers(wanted))
                for wanted in body.topics
            ]
        )

    @property
    def is_enough(self) -> bool:
        """Whether the client need not wait."""
        return self.bytes >= self._min_bytes or self.has_error

    def watchers(self, share: _Share) -> set[Wake]:
        """Where to wait: a replica for what is appended, others for what is safe."""
        partition = share.partition
        return partition.watchers if self._replica < 0 else partition.replica_watchers

    def traffic(self) -> Iterator[_Share]:
        """What counts as read by clients."""
        return iter(self.shares if self._replica < 0 else ())

    def look_again(self) -> None:
        """Read where something changed: most partitions of a fetch are quiet."""
        for share in self.shares:
            if share.has_changed:
                self._look(share)

    def _answers(self, wanted: FetchTopic) -> list[PartitionData]:
        topic = self._broker.topics.find(wanted.topic)
        answers = []
        for part in wanted.partitions:
            answer = PartitionData(partition_index=part.partition, records=b"")
            answers.append(answer)
            try:
                if topic is None:
                    raise UnknownTopicOrPartition(f"there is no topic {wanted.topic!r}")
                share = _Share(topic, topic.partition(part.partition), part, answer)
                share.is_comparing = self._replica == COMPARING
                if self._replica >= 0:
                    self._note_replica(share)
            except ProtocolError as error:
                self._fail(answer, error.code)
                continue
            self.shares.append(share)
            self._look(share)
        return answers

    def _note_replica(self, share: _Share) -> None:
        """What a follower asks for tells what it has."""
        epoch, offset = share.wanted.current_leader_epoch, share.wanted.fetch_offset
        share.is_replica = True
        share.partition.check_readable(epoch)
        share.partition.fetched(self._replica, epoch, offset, self._broker.loop.time())

    def _look(self, share: _Share) -> None:
        if share.piece is not None:
            self.bytes -= share.piece.size
            share.piece = None
        try:
            share.piece = piece = self._read(share)
        except ProtocolError as error:
            code = error.code
            self._broker.metrics.error(code.name.lower())
            if code == ErrorCode.CORRUPT_MESSAGE:
                code = self._broker.repairs.found(share.partition, share.wanted.fetch_offset)
            self._fail(share.answer, code)
            return
        share.answer.records = b"" if piece is None else piece
        if piece is not None:
            self.bytes += piece.size

    def _read(self, share: _Share) -> FileSlice | None:
        partition, wanted, answer = share.partition, share.wanted, share.answer
        if share.is_comparing:
            partition.check_online()
        else:
            partition.check_readable(wanted.current_leader_epoch)
        end = share.end = share.readable_end
        watermark = partition.high_watermark
        if not share.is_replica and not partition.is_settled:
            # A client may have seen more than a new leader is sure of yet.
            watermark = max(watermark, wanted.fetch_offset)
        answer.high_watermark = answer.last_stable_offset = watermark
        answer.log_start_offset = partition.log.start_offset
        if wanted.fetch_offset == end:
            return None
        if share.topic.codec == Codec.ZSTD and self._version < ZSTD_SINCE_VERSION:
            raise UnsupportedCompressionType("zstd needs version 10 of Fetch or later")
        room = self._room - self.bytes
        if room <= 0 and self.bytes:
            return None
        limit = min(wanted.partition_max_bytes, max(room, 0))
        # The first batch is sent whatever its size: a limit below it must not stop a consumer.
        return partition.log.read(wanted.fetch_offset, limit, end, at_least_one=self.bytes == 0)

    def _fail(self, answer: PartitionData, code: ErrorCode) -> None:
        answer.error_code = code
        answer.high_watermark = -1
        answer.records = b""
        self.has_error = True


class _LongPoll:
    """One fetch that waits for data, woken by the partitions it asks for, at the latest by time."""

    __slots__ = ("_broker", "_found", "_is_woken", "_request", "_timer", "answer")

    def __init__(self, broker: Broker, request: Request, found: _Found, wait_ms: int) -> None:
        self._broker = broker
        self._request = request
        self._found = found
        self._is_woken = False
        self.answer = Deferred()
        self.answer.abandon = self._leave
        request.connection.at_close.add(self._hang_up)
        for share in found.shares:
            found.watchers(share).add(self._wake)
        broker.long_polls.add(self._give_up)
        seconds = min(wait_ms / 1000, WAIT_SECONDS_MAX)
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
        self._found.look_again()
        if self._found.is_enough:
            self._end()

    def _give_up(self) -> None:
        if not self.answer.is_given:
            self._found.look_again()
            self._end()

    def _leave(self) -> None:
        """Wait no more."""
        self.answer.is_given = True
        self._timer.cancel()
        self._request.connection.at_close.discard(self._hang_up)
        for share in self._found.shares:
            self._found.watchers(share).discard(self._wake)
        self._broker.long_polls.discard(self._give_up)

    def _hang_up(self) -> None:
        """The client is gone; nobody reads what is answered."""
        self._leave()
        self.answer.resolve(self._found.response)

    def _end(self) -> None:
        self._leave()
        result = _finish(self._broker, self._found)
        if isinstance(result, FetchResponse):
            self.answer.resolve(result)
        else:
            self._broker.dispatcher.later(self._resolve(result))

    async def _resolve(self, result: Coroutine[Any, Any, FetchResponse]) -> None:
        self.answer.resolve(await result)


def _finish(broker: Broker, found: _Found) -> Any:
    """The response, once what it sends is in memory: at once, or after a thread has read it."""
    filled = [(share, share.piece) for share in found.shares if share.piece is not None]
    for share in found.traffic():
        if (piece := share.piece) is not None:
            messages = piece.next_offset - share.wanted.fetch_offset
            share.topic.traffic.read(messages, piece.size)
            share.partition.carried.bytes_out += piece.size
            share.partition.carried.messages_out += messages
    cold = _bring_in(broker, filled)
    return _finish_later(broker, found, cold) if cold else found.response


async def _finish_later(broker: Broker, found: _Found, cold: list[_Filled]) -> FetchResponse:
    for share, fault in await broker.off_loop(_warm, cold):
        _refuse(broker, share, fault)
    _bring_in(broker, [(share, piece) for share, piece in cold if share.piece is piece])
    return found.response


_Filled = tuple[_Share, FileSlice]
_Fault = tuple[int, int]  # where in a slice, and at which offset


def _bring_in(broker: Broker, filled: list[_Filled]) -> list[_Filled]:
    """Read what is too small to be worth a `sendfile` of its own; returns what would wait.

    A slice that was read in vain stays one and is sent from its file.
    """
    cold = []
    copied = 0
    for share, piece in filled:
        if piece.size >= SENDFILE_BYTES_MIN or copied + piece.size > COPIED_BYTES_MAX:
            if not piece.is_checked or not piece.resident():
                cold.append((share, piece))
            continue
        copied += piece.size
        data = piece.read_resident()
        if data is None:
            cold.append((share, piece))
        elif not piece.is_checked and (fault := _fault(share, data)) is not None:
            _refuse(broker, share, fault)
        else:
            share.answer.records = data
    return cold


def _warm(cold: list[_Filled]) -> list[tuple[_Share, _Fault]]:
    """Bring slices into the page cache, so that sending them does not block the event loop.

    Those that were not checked yet are, on the way; returns what is wrong.
    """
    faults = []
    for share, piece in cold:
        if piece.is_checked:
            piece.warm()
            continue
        source = share.partition.log
        fault = check_slice(piece, share.wanted.fetch_offset, source.gaps_below)
        piece.is_checked = True
        if fault is not None:
            faults.append((share, fault))
    return faults


def _fault(share: _Share, data: bytes | bytearray) -> _Fault | None:
    source = share.partition.log
    return check_batches(memoryview(data), share.wanted.fetch_offset, source.gaps_below)


def _refuse(broker: Broker, share: _Share, fault: _Fault) -> None:
    """Send only what lies before a damaged batch; to one who compares, all as it is."""
    position, offset = fault
    code = broker.repairs.found(share.partition, offset)
    piece, answer = share.piece, share.answer
    if share.is_comparing or piece is None:
        return
    piece.size, piece.next_offset = position, offset
    if position == 0:
        share.piece = None
        broker.metrics.error(code.name.lower())
        answer.error_code, answer.high_watermark, answer.records = code, -1, b""
