"""The way into one partition: what waits is written in batches, one at a time and in order.

A batch carries a producer's id and sequence, so that sending it again, to whoever leads then,
writes it once. It is sent until it is settled or nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, NamedTuple, Protocol

from nexus.proxy.errors import BrokerAway, FateUnknown, NoBroker, NotWritten
from nexus.proxy.messages import BATCH_BYTES_MAX, Message, Parcel
from nexus.proxy.refusals import STALE_PRODUCER, refusal
from nexus.web.problems import Problem
from nexus.wire.errors import RETRIABLE, ErrorCode
from nexus.wire.messages.produce import PartitionProduceResponse
from nexus.wire.records import encode_batch

PAUSE_S: Final = 0.02
PAUSE_MOST_S: Final = 0.25
_SEQUENCE_MASK: Final = (1 << 31) - 1


class OwnerDown(Exception):
    """Raised when a partition's only owner is down and nothing was sent: it may go elsewhere."""


class Place(NamedTuple):
    """What a lane leads to."""

    topic: str
    partition: int
    acks: int


class Carrier(Protocol):
    """Who knows the brokers."""

    async def send(self, place: Place, batch: bytearray) -> PartitionProduceResponse:
        """What the owner says of a batch; BrokerAway where it says nothing."""

    async def look_again(self, place: Place) -> None:
        """Learn who owns the partition; NotFound, NoBroker."""

    def is_lost(self, place: Place) -> bool:
        """Whether nobody else can own the partition while its owner is down."""

    def left(self, place: Place) -> None:
        """A batch leaves: what comes next may go elsewhere."""


@dataclass(slots=True)
class Identity:
    """A producer's id, and the sequence of its next message."""

    producer_id: int = -1
    next_sequence: int = 0


@dataclass(slots=True)
class _Batch:
    parcels: list[Parcel]
    encoded: bytearray = field(default_factory=bytearray)
    in_doubt: bool = False  # whether it may be written already

    @property
    def count(self) -> int:
        return sum(len(parcel.messages) for parcel in self.parcels)

    @property
    def deadline(self) -> float:
        return max(parcel.deadline for parcel in self.parcels)

    def written(self, base_offset: int) -> None:
        for parcel in self.parcels:
            if not parcel.base_offset.done():
                parcel.base_offset.set_result(base_offset)
            base_offset += len(parcel.messages) if base_offset >= 0 else 0

    def fail(self, error: Exception) -> None:
        for parcel in self.parcels:
            parcel.fail(error)


class Lane:
    """One partition at one level of acknowledgement."""

    def __init__(
        self, place: Place, carrier: Carrier, new_id: Callable[[], Awaitable[int]]
    ) -> None:
        self._place = place
        self._carrier = carrier
        self._new_id = new_id
        self._identity: Identity | None = None if place.acks else Identity()
        self._waiting: deque[Parcel] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._task is None

    def put(self, parcel: Parcel) -> None:
        """Write a parcel when its turn comes."""
        self._waiting.append(parcel)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while batch := self._next():
                await self._deliver(batch)
        finally:
            self._task = None
            if self._waiting:  # cancelled, or broken: nobody is left waiting in vain
                for parcel in self._waiting:
                    parcel.fail(NotWritten("the proxy stops"))
                self._waiting.clear()

    def _next(self) -> _Batch | None:
        """What waits and fits one batch."""
        parcels: list[Parcel] = []
        size = 0
        while self._waiting:
            parcel = self._waiting[0]
            if parcels and (size + parcel.size > BATCH_BYTES_MAX or parcel.alone):
                break
            self._waiting.popleft()
            if parcel.is_given_up:
                continue
            parcels.append(parcel)
            size += parcel.size
            if parcel.alone:
                break
        return _Batch(parcels) if parcels else None

    async def _deliver(self, batch: _Batch) -> None:
        self._carrier.left(self._place)
        pause_s = PAUSE_S
        while True:
            try:
                if await self._attempt(batch):
                    return
                why = "the partition's leader is not known"
            except Problem as error:
                why = error.detail
                if not isinstance(error, NoBroker):
                    self._give_up(batch, error)
                    return
            except OwnerDown as error:
                batch.fail(error)
                return
            if monotonic() + pause_s >= batch.deadline:
                self._give_up(batch, NotWritten(f"not within its time: {why}"))
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MOST_S)

    async def _attempt(self, batch: _Batch) -> bool:
        """Send it once; whether it is settled."""
        if not batch.encoded:
            batch.encoded = await self._encode(batch)
        for parcel in batch.parcels:
            parcel.is_sent = True
        try:
            answer = await self._carrier.send(self._place, batch.encoded)
        except BrokerAway as error:
            batch.in_doubt |= error.in_doubt
            if not batch.in_doubt and self._carrier.is_lost(self._place):
                raise OwnerDown from error
            await self._carrier.look_again(self._place)
            return False
        return await self._take(batch, answer)

    async def _take(self, batch: _Batch, answer: PartitionProduceResponse) -> bool:
        code = answer.error_code
        if code == ErrorCode.NONE:
            if self._identity is not None:
                following = self._identity.next_sequence + batch.count
                self._identity.next_sequence = following & _SEQUENCE_MASK
            batch.written(answer.base_offset)
            return True
        if code in STALE_PRODUCER and not batch.in_doubt:
            self._identity, batch.encoded = None, bytearray()
            return False
        if code in RETRIABLE and code != ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            # A leader may be deposed after it appended: the next one may have the batch.
            batch.in_doubt = True
            await self._carrier.look_again(self._place)
            return False
        self._refused(batch, refusal(code, answer.error_message))
        return True

    def _refused(self, batch: _Batch, error: Problem) -> None:
        """One bad message costs those beside it nothing: each request is tried alone."""
        if len(batch.parcels) == 1 or batch.in_doubt:
            self._give_up(batch, error)
            return
        for parcel in reversed(batch.parcels):
            parcel.alone, parcel.is_sent = True, False
            self._waiting.appendleft(parcel)

    def _give_up(self, batch: _Batch, error: Problem) -> None:
        if batch.in_doubt:
            # Its sequence may be taken, or not: what follows needs another producer's.
            self._identity = None
            error = FateUnknown(
                f"it was sent, but nobody can say what became of it: {error.detail}"
            )
        batch.fail(error)

    async def _encode(self, batch: _Batch) -> bytearray:
        if self._identity is None:
            self._identity = Identity(await self._new_id())
        messages = [message for parcel in batch.parcels for message in parcel.messages]
        return encode(messages, self._identity)


def encode(messages: list[Message], identity: Identity) -> bytearray:
    """A batch in a producer's name; of nobody's where the identity has no id."""
    values, keys, headers, times_ms, _ = zip(*messages, strict=True)
    records = list(zip(range(len(messages)), times_ms, keys, values, headers, strict=True))
    if identity.producer_id < 0:
        return encode_batch(records)
    return encode_batch(
        records,
        producer_id=identity.producer_id,
        producer_epoch=0,
        base_sequence=identity.next_sequence,
    )
