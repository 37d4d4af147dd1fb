"""Runs the machine of one group in one partition that is led here, for one epoch of that.

What the machine wants stored is stored, what it wants buried is buried, and whoever waits for a
message is woken. When the leadership ends, so does this; the next leader makes its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from nexus.broker.dispatch import spawn
from nexus.broker.partition import FencedLeaderEpoch, NotLeader, Partition, Wake
from nexus.broker.sharing.dead_letters import DeadLetters, Origin, read_records
from nexus.broker.sharing.overview import ShareCounts
from nexus.broker.sharing.reading import Reader
from nexus.broker.sharing.state_client import StateClient, persistently
from nexus.groups.sharing.config import SharingConfig
from nexus.groups.sharing.deliveries import Acquired, Deliveries
from nexus.groups.sharing.effects import Bury, Confirm, Effects, Keep, Record
from nexus.groups.sharing.state_log import NOT_STARTED, StateKey
from nexus.observe.logs import get_logger
from nexus.wire.errors import InvalidRequest, ProtocolError
from nexus.wire.messages.share_fetch import AcknowledgementBatch, AcknowledgeType

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

log = get_logger(__name__)

REJECTED: Final = "a consumer rejected it"
DELAY_MS_MAX: Final = 24 * 3_600_000
BURY_AGAIN_SECONDS: Final = 1.0
SETTLED_MAX: Final = 100_000  # in one call


class _Promise:
    """An answer that waits until all that was told at once is durable."""

    __slots__ = ("future", "left")

    def __init__(self, future: asyncio.Future[None], left: int) -> None:
        self.future = future
        self.left = left

    def keep(self) -> None:
        self.left -= 1
        if not self.left and not self.future.done():
            self.future.set_result(None)


class _Word(NamedTuple):
    """What is said of messages."""

    kind: int
    delay_ms: int
    reason: str | None
    is_undelivered: bool


class Services(NamedTuple):
    """What every queue needs."""

    broker: Broker
    client: StateClient
    letters: DeadLetters
    counts: ShareCounts


class Queue:
    """One group's deliveries from one partition."""

    def __init__(
        self,
        services: Services,
        origin: Origin,
        partition: Partition,
        config: SharingConfig,
    ) -> None:
        broker, group, topic = services.broker, origin.group, origin.topic
        self.config = config
        self.group = group
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.watchers: set[Wake] = set()
        self.reader = Reader(broker.off_loop, partition, broker.found_damage)
        self._broker = broker
        self._topic = topic
        self._origin = origin
        self._key = StateKey(group, topic.topic_id, partition.index)
        self._client = services.client
        self._letters = services.letters
        self.delivered, self._acknowledged, self._dead = services.counts.of(group, topic.name)
        self._machine: Deliveries | None = None
        self._promises: set[_Promise] = set()
        self._graves: list[Bury] = []
        self._is_burying = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_ms: int | None = None
        self._keys: dict[int, bytes | None] = {}  # of the batch that was looked into last
        self._loading = broker.loop.create_task(self._load())
        # Whoever waits for it is told; where nobody does, it is of no interest.
        self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def is_over(self) -> bool:
        """Whether another one, here or elsewhere, is in charge."""
        partition = self.partition
        return (
            self._is_closed
            or not partition.is_leader
            or partition.leader_epoch != self.epoch
            or partition.is_retired
        )

    @property
    def waiting(self) -> int:
        """How many messages are not finished; 0 until that is known."""
        return 0 if self._machine is None else self._machine.waiting(self.partition.log.end_offset)

    @property
    def in_flight(self) -> int:
        """How many messages members hold, or gave back for later; 0 until that is known."""
        return 0 if self._machine is None else self._machine.in_flight

    @property
    def start(self) -> int:
        """All messages before this one are finished."""
        return self.partition.log.start_offset if self._machine is None else self._machine.start

    async def ready(self) -> None:
        """Wait until what was stored is known; raises why it will not be."""
        if self._machine is None:
            try:
                await asyncio.shield(self._loading)
            except (FencedLeaderEpoch, asyncio.CancelledError) as error:
                raise self._not_leader() from error
        self._check()

    # What members do -------------------------------------------------------------------------

    def acquire(self, member: str, limit: int) -> list[Acquired]:
        """Give a member messages."""
        machine = self._open()
        effects = machine.log_starts_at(self.partition.log.start_offset)
        acquired, more = machine.acquire(
            member, self.partition.high_watermark, limit, self._now_ms(), self._key_of
        )
        self._run(effects + more)
        return acquired

    def hand_back(self, member: str, runs: Iterable[Acquired]) -> None:
        """What could not be sent was not delivered."""
        offsets = [offset for first, last, _ in runs for offset in range(first, last + 1)]
        self._open().hand_back(member, offsets)
        self._set_timer()
        self._wake()

    async def settle(self, member: str, batches: Iterable[AcknowledgementBatch]) -> list[int]:
        """Store what became of messages; returns those that the member does not hold."""
        self._check()
        machine = self._open()
        steps = self._steps(batches)
        promise = _Promise(self._broker.loop.create_future(), len(steps))
        self._promises.add(promise)
        self._run(machine.tick(self._now_ms()))
        refused: list[int] = []
        try:
            for step in steps:
                missing, effects = step(machine, promise, member)
                refused += missing
                self._run(effects)
            self._wake()
            if steps:
                await promise.future
        finally:
            self._promises.discard(promise)
        return refused

    def member_gone(self, member: str) -> None:
        """What a member held goes to others at once."""
        if self._machine is not None and not self.is_over:
            self._run(self._machine.member_gone(member))
            self._wake()

    def close(self, why: ProtocolError | None = None) -> None:
        """Stop: whoever waits is told to look for the leader."""
        self._is_closed = True
        self._loading.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for promise in list(self._promises):
            if not promise.future.done():
                promise.future.set_exception(why or self._not_leader())
        self._wake()

    # What the machine asks for ---------------------------------------------------------------

    async def _load(self) -> None:
        record = await persistently(
            lambda: self._client.read(self._topic.name, self._key, self.epoch),
            lambda: self.is_over,
        )
        end = self.partition.log.end_offset
        if record.start == NOT_STARTED:
            record = await self._begin()
        elif record.start > end:
            # The log lost its end in an election that its topic allows: what comes now is new.
            record = Record(end)
        self._machine = Deliveries(self.config, record)
        self._wake()

    async def _begin(self) -> Record:
        """Where a new group starts. That is stored where the next leader could not know it."""
        if not self.config.from_latest:
            return Record(self.partition.log.start_offset)
        record = Record(self.partition.high_watermark)
        await persistently(
            lambda: self._client.write(self._topic.name, self._key, self.epoch, record),
            lambda: self.is_over,
        )
        return record

    def _run(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Keep(change):
                    spawn(self._broker.loop, self._keep(change))
                case Confirm(token):
                    assert isinstance(token, _Promise)
                    token.keep()
                case Bury():
                    self._graves.append(effect)
        if self._graves and not self._is_burying:
            self._is_burying = True
            spawn(self._broker.loop, self._bury())
        self._set_timer()

    async def _keep(self, change: Record) -> None:
        try:
            await persistently(
                lambda: self._client.write(self._topic.name, self._key, self.epoch, change),
                lambda: self.is_over,
            )
        except ProtocolError as error:
            log.warning("a queue's state is not stored", group=self.group, why=str(error))
            self.close()
            return
        assert self._machine is not None
        self._run(self._machine.kept())
        self._wake()

    async def _bury(self) -> None:
        machine = self._open()
        while self._graves and not self.is_over:
            graves = self._graves
            try:
                done = await self._letters.bury(self._origin, graves)
            except ProtocolError as error:
                log.warning("a message cannot be buried now", group=self.group, why=str(error))
                await asyncio.sleep(BURY_AGAIN_SECONDS)
                continue
            self._graves = self._graves[len(done) :]
            self._dead.inc(len(done))
            for offset in done:
                self._run(machine.buried(offset))
            self._wake()
        self._is_burying = False

    def _steps(self, batches: Iterable[AcknowledgementBatch]) -> list[_Step]:
        """What is to be done, the same with many messages at once."""
        told: dict[_Word, list[int]] = {}
        count = 0
        for batch in batches:
            count += batch.last_offset - batch.first_offset + 1
            if count > SETTLED_MAX:
                raise InvalidRequest(f"more than {SETTLED_MAX} messages in one call")
            for kind, offsets in self._told(batch):
                word = _Word(kind, batch.delay_ms, batch.reason, batch.is_undelivered)
                told.setdefault(word, []).extend(offsets)
        return [self._step(word, offsets) for word, offsets in told.items()]

    def _told(self, batch: AcknowledgementBatch) -> Iterator[tuple[int, Iterable[int]]]:
        """What is said of which messages; InvalidRequest where it makes no sense."""
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        count = last - first + 1
        if not 0 < count <= 2 * self.config.window or len(types) not in (1, count):
            raise InvalidRequest(f"{len(types)} words for the messages from {first} to {last}")
        if len(types) == 1:
            yield types[0], range(first, last + 1)
        else:
            yield from ((kind, (offset,)) for offset, kind in enumerate(types, first))

    def _step(self, word: _Word, offsets: list[int]) -> _Step:
        if word.kind in (AcknowledgeType.GAP, AcknowledgeType.ACCEPT):
            return lambda machine, token, member: self._accept(machine, token, member, offsets)
        if word.kind == AcknowledgeType.RELEASE and word.is_undelivered:
            return lambda machine, token, member: (
                machine.hand_back(member, offsets),
                [Confirm(token)],
            )
        if word.kind == AcknowledgeType.RELEASE:
            delay_ms = min(max(word.delay_ms, 0), DELAY_MS_MAX)
            ready_ms = self._now_ms() + delay_ms if delay_ms else 0
            return lambda machine, token, member: machine.release(token, member, offsets, ready_ms)
        if word.kind == AcknowledgeType.REJECT:
            reason = word.reason or REJECTED
            return lambda machine, token, member: machine.reject(token, member, offsets, reason)
        if word.kind == AcknowledgeType.RENEW:
            return lambda machine, token, member: (
                machine.renew(member, offsets, self._now_ms()),
                [Confirm(token)],
            )
        raise InvalidRequest(f"{word.kind} is nothing that can become of a message")

    def _accept(
        self, machine: Deliveries, token: object, member: str, offsets: list[int]
    ) -> tuple[list[int], Effects]:
        refused, effects = machine.accept(token, member, offsets)
        self._acknowledged.inc(len(offsets) - len(refused))
        return refused, effects

    def _key_of(self, offset: int) -> bytes | None:
        if offset not in self._keys:
            records = read_records(self.partition.log, offset)
            self._keys = {record.offset: record.key for record in records}
            self._keys.setdefault(offset, None)
        return self._keys[offset]

    # Time ------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        deadline_ms = self._open().next_deadline_ms()
        if deadline_ms == self._deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadline_ms = deadline_ms
        if deadline_ms is not None and not self._is_closed:
            delay = max(deadline_ms - self._now_ms(), 0) / 1000
            self._timer = self._broker.loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = self._deadline_ms = None
        if not self.is_over:
            self._run(self._open().tick(self._now_ms()))
            self._wake()

    def _wake(self) -> None:
        """Let those look again who wait for messages, if there may be some."""
        if self._is_closed or self._open().may_give(self.partition.high_watermark):
            for wake in list(self.watchers):
                wake()

    def _now_ms(self) -> int:
        return self._broker.sharing.now_ms()

    def _open(self) -> Deliveries:
        assert self._machine is not None, "it is asked before it is ready"
        return self._machine

    def _check(self) -> None:
        if self.is_over:
            raise self._not_leader()

    def _not_leader(self) -> NotLeader:
        return NotLeader(f"{self.partition.topic}/{self.partition.index} is not led here")


_Step = Callable[[Deliveries, object, str], tuple[list[int], Effects]]
