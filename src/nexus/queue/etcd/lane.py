"""One lane of a publisher: transactions one after the other, each sent until it is held.

Each transaction puts the lane's bell too, on the condition that the bell is as the lane left it: so
one whose answer was lost is simply sent again, and cannot happen twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from nexus.etcd import (
    Ambiguous,
    Client,
    EtcdError,
    LeaseNotFound,
    NoSpace,
    Operation,
    Put,
    RequestTooLarge,
    TooManyOperations,
    TxnResult,
)
from nexus.queue.errors import MessageRefused, QueueError
from nexus.queue.etcd.counts import Count, Step, Tally
from nexus.queue.etcd.encoding import Encoder, Unit
from nexus.queue.etcd.layout import Layout, Slot
from nexus.queue.etcd.leases import RotatingLease
from nexus.queue.etcd.pressure import Gate
from nexus.queue.etcd.slots import ensure_config, register
from nexus.queue.port import Message
from nexus.telemetry.errors import FrameError

_BATCH: Final = itemgetter(1)
_RETRY_S: Final = (0.05, 0.2, 0.5, 1.0)
# What was on its way to a leader that died is lost, and its member says so after 7 s only. To send
# it again is harmless.
_ANSWER_S: Final = 4.0
SPARE_BYTES: Final = 4096  # of a request, for the bell and the compare
# etcd keeps its last 10,000 requests in memory, or more: of larger ones it would be gigabytes.
TRANSACTION_BYTES: Final = 256 << 10


class Batch:
    """Messages that settle together."""

    __slots__ = ("left", "messages", "on_settled", "refusal", "size")

    def __init__(
        self, messages: Sequence[Message], on_settled: Callable[[MessageRefused | None], None]
    ) -> None:
        self.messages, self.on_settled = messages, on_settled
        self.left = len(messages)
        self.size = sum([len(message.value) for message in messages])
        self.refusal: MessageRefused | None = None


class Piece(NamedTuple):
    """Messages of a batch for one partition; for the dead letters where that is None."""

    partition: int | None
    messages: Sequence[Message]
    batch: Batch


@dataclass
class Shared:
    """What the lanes of a publisher have in common."""

    client: Client
    layout: Layout
    cluster: str
    partitions: int
    encoder: Encoder
    leases: RotatingLease
    gate: Gate
    operations: int  # in one transaction, the bell included
    request_bytes: int  # the most that the server takes
    transaction_bytes: int  # how much is put together
    batch_messages: int
    tell: Callable[[str], None]  # what is wrong now; nothing when all is well again
    settle: Callable[[Batch, int], None]
    registered: set[Slot] = field(default_factory=set)

    async def register(self, slot: Slot) -> None:
        if slot not in self.registered:
            await register(self.client, self.layout, [slot])
            self.registered.add(slot)

    async def register_again(self) -> None:
        """For a queue that was wiped while we were using it."""
        await ensure_config(self.client, self.layout, self.partitions)
        await register(self.client, self.layout, self.registered)


class Lane:
    """Give it pieces with `add`; `run` sends them until it is cancelled."""

    def __init__(self, shared: Shared, bell: bytes, name: str) -> None:
        self._shared = shared
        self._tally = Tally(bell, name)
        self._pieces: deque[Piece] = deque()
        self._ready: deque[tuple[Unit, Batch]] = deque()
        self._ready_bytes = 0
        self._wake = asyncio.Event()

    def add(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            while self._pieces or self._ready:
                await self._encode()
                if self._ready:
                    await self._send(self._next())
            self._wake.clear()

    async def _encode(self) -> None:
        """Have enough units for a transaction, if there is enough to send."""
        while self._pieces and not self._has_enough():
            piece = self._pieces[0]
            if piece.partition is not None:  # known before it gets its first message
                slot = Slot(self._shared.cluster, piece.partition)
                await self._patiently(partial(self._shared.register, slot))
            units = self._units(self._pieces.popleft())
            self._ready.extend((unit, piece.batch) for unit in units)
            self._ready_bytes += _sizes(units)

    def _units(self, piece: Piece) -> list[Unit]:
        encoder = self._shared.encoder
        try:
            if piece.partition is None:
                return encoder.dead_units(piece.messages)
            return encoder.units(piece.partition, piece.messages)
        except FrameError as error:
            piece.batch.refusal = MessageRefused(str(error))
            self._shared.settle(piece.batch, len(piece.messages))
            return []

    def _has_enough(self) -> bool:
        shared = self._shared
        is_long = len(self._ready) >= shared.operations - 1
        return is_long or self._ready_bytes >= shared.transaction_bytes

    async def _patiently(self, work: Callable[[], Awaitable[None]]) -> None:
        """Done when etcd has done it."""
        failures = 0
        while True:
            try:
                return await work()
            except (EtcdError, QueueError) as error:
                failures += 1
                await self._pause(error, failures)

    def _next(self) -> list[tuple[Unit, Batch]]:
        """The first units that fit one transaction; at least one."""
        shared = self._shared
        chosen: list[tuple[Unit, Batch]] = []
        size = messages = 0
        for unit, batch in self._ready:
            size += unit.size
            messages += unit.settles
            if chosen and (
                size > shared.transaction_bytes
                or messages > shared.batch_messages
                or len(chosen) >= shared.operations - 1
            ):
                break
            chosen.append((unit, batch))
        return chosen

    async def _send(self, entries: list[tuple[Unit, Batch]]) -> None:
        """Returns when the units are held, or refused for good, or have to be cut smaller."""
        units = [unit for unit, _ in entries]
        size = _sizes(units)
        if len(units) == 1 and size > self._shared.request_bytes:
            self._refuse(entries[0], f"etcd takes {self._shared.request_bytes} in one request")
            return
        try:
            await self._held(units, size)
        except (RequestTooLarge, TooManyOperations) as error:
            self._cut(entries, size, error)
            return
        for _ in entries:
            self._ready.popleft()
        self._ready_bytes -= size
        self._shared.tell(self._shared.gate.problem)
        for batch, together in groupby(entries, _BATCH):
            self._shared.settle(batch, sum([unit.settles for unit, _ in together]))

    async def _held(self, units: Sequence[Unit], size: int) -> None:
        """Send until etcd has it; raises only what sending again would not change."""
        counted = [unit for unit in units if not unit.dead]
        added = Count(len(counted), sum([unit.readings for unit in counted]))
        leases: list[int] = []
        try:
            while not await self._is_in(units, size, added, leases):
                continue
        finally:
            # Only now: until its fate is known, a transaction may still put keys on any of them.
            for lease in leases:
                self._shared.leases.release(lease)

    async def _is_in(
        self, units: Sequence[Unit], size: int, added: Count, leases: list[int]
    ) -> bool:
        step = self._tally.step(added, time.time_ns() // 1_000_000)
        done = await self._answered(units, size, step, leases)
        if done.succeeded:
            self._tally.done(step, done.revision)
            return True
        bell = done.got(0).first
        if self._tally.was_done(step, bell):
            return True
        if bell is None:
            await self._patiently(self._shared.register_again)
        return False

    async def _answered(
        self, units: Sequence[Unit], size: int, step: Step, leases: list[int]
    ) -> TxnResult:
        """Send it until etcd answers; with its step it can happen only once."""
        shared, failures = self._shared, 0
        while True:
            await shared.gate.passing(size)
            try:
                leases.append(await shared.leases.lease_for(0 if leases else len(units)))
                return await self._attempt(units, step, leases[-1])
            except Ambiguous as error:
                shared.tell(str(error))
            except LeaseNotFound:
                shared.leases.drop(leases[-1])
            except NoSpace:
                shared.gate.refused()
            except (RequestTooLarge, TooManyOperations):
                raise
            except EtcdError as error:
                failures += 1
                await self._pause(error, failures)

    async def _attempt(self, units: Sequence[Unit], step: Step, lease: int) -> TxnResult:
        then: list[Operation] = [Put(unit.key, unit.value, lease) for unit in units]
        then.append(step.put)
        return await self._shared.client.txn(
            when=[step.when], then=then, otherwise=[self._tally.get], timeout_s=_ANSWER_S
        )

    def _cut(self, entries: list[tuple[Unit, Batch]], size: int, error: EtcdError) -> None:
        """The server takes less than it took when it was asked."""
        shared = self._shared
        if len(entries) == 1:
            self._refuse(entries[0], str(error))
        elif isinstance(error, TooManyOperations):
            shared.operations = max(2, min(shared.operations, len(entries) // 2 + 1))
        else:
            shared.transaction_bytes = min(shared.transaction_bytes, size // 2)

    def _refuse(self, entry: tuple[Unit, Batch], why: str) -> None:
        unit, batch = entry
        self._ready.popleft()
        self._ready_bytes -= unit.size
        batch.refusal = MessageRefused(f"a message of {len(unit.value)} bytes is too large: {why}")
        self._shared.settle(batch, unit.settles)

    async def _pause(self, error: EtcdError | QueueError, failures: int) -> None:
        self._shared.tell(str(error))
        await asyncio.sleep(_RETRY_S[min(failures, len(_RETRY_S)) - 1])


def _sizes(units: Iterable[Unit]) -> int:
    return sum([unit.size for unit in units])
