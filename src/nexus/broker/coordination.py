"""Runs the group coordinators: one pure `Coordinator` for each partition of the offsets topic.

Requests go in, replies come out as futures, and what a coordinator wants stored is appended to its
partition like any other acks=all write. A coordinator answers "loading" until it has replayed its
partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from nexus.broker.partition import Partition
from nexus.broker.topics import OFFSETS_TOPIC, Topics
from nexus.groups import (
    Coordinator,
    Effects,
    FetchOffsetsRequest,
    GroupConfig,
    Reply,
    Store,
    partition_for,
)
from nexus.log import PartitionLog
from nexus.observe.logs import get_logger
from nexus.wire.batch import iter_headers, read_header
from nexus.wire.errors import ErrorCode, ProtocolError
from nexus.wire.records import Record, decode_records, encode_batch

if TYPE_CHECKING:
    from nexus.settings import BrokerSettings

log = get_logger(__name__)

LOAD_CHUNK_BYTES: Final = 4 << 20
OFFSETS_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 << 20),
    # A rebalance of a large group is one record with every member in it.
    "max.message.bytes": str(64 << 20),
}


class CoordinatorNotAvailable(ProtocolError):
    """Raised when there is no place to keep groups in."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


Ask = Callable[[object, int], Effects]
OffLoop = Callable[..., Any]


class Runner:
    """Carries out what one coordinator decides."""

    def __init__(
        self, partition: Partition, coordinator: Coordinator, now_ms: Callable[[], int]
    ) -> None:
        self.partition = partition
        self.coordinator = coordinator
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_ms: int | None = None

    async def load(self, off_loop: OffLoop) -> None:
        """Replay the partition, then serve."""
        offset = self.partition.log.start_offset
        while offset < self.partition.high_watermark:
            records, offset = await off_loop(_read_chunk, self.partition.log, offset)
            self.coordinator.load((record.key, record.value) for record in records)
        if self.coordinator.skipped_records:
            log.warning(
                "unreadable group records were skipped",
                partition=self.partition.index,
                records=self.coordinator.skipped_records,
            )
        self.run(self.coordinator.loaded(self._now_ms()))

    async def ask(self, request: Ask) -> Any:
        """Put a request to the coordinator and wait for its reply."""
        token = self._loop.create_future()
        self.run(request(token, self._now_ms()))
        return await token

    def run(self, effects: Effects) -> None:
        """Carry out effects, and wake when the next deadline comes."""
        for effect in effects:
            match effect:
                case Reply(token, result):
                    assert isinstance(token, asyncio.Future)
                    if not token.done():
                        token.set_result(result)
                case Store():
                    self._store(effect)
        self._set_timer()

    def close(self) -> None:
        """Answer everyone who waits and stop."""
        self.run(self.coordinator.close())
        if self._timer is not None:
            self._timer.cancel()

    def _store(self, store: Store) -> None:
        now = self._now_ms()
        records = [
            Record(offset, now, key, value, ()) for offset, (key, value) in enumerate(store.records)
        ]
        batch = memoryview(encode_batch(records))
        try:
            appended = self.partition.append(batch, read_header(batch))
        except ProtocolError as error:
            log.error("group records could not be stored", why=str(error))
            self._loop.call_soon(self._stored, store.tag, error.code)
            return
        waits = self.partition.when_safe(
            appended.last_offset + 1,
            lambda error: self._stored(store.tag, ErrorCode.NONE if error is None else error.code),
        )
        if not waits:
            self._loop.call_soon(self._stored, store.tag, ErrorCode.NONE)

    def _stored(self, tag: int, error: ErrorCode) -> None:
        self.run(self.coordinator.stored(tag, error, self._now_ms()))

    def _set_timer(self) -> None:
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms == self._deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadline_ms = deadline_ms
        if deadline_ms is not None:
            delay = max(deadline_ms - self._now_ms(), 0) / 1000
            self._timer = self._loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = self._deadline_ms = None
        self.run(self.coordinator.tick(self._now_ms()))


class Coordination:
    """All groups of this broker, found by their id."""

    def __init__(
        self,
        topics: Topics,
        settings: BrokerSettings,
        now_ms: Callable[[], int],
        off_loop: OffLoop,
    ) -> None:
        self._topics = topics
        self._settings = settings
        self._now_ms = now_ms
        self._off_loop = off_loop
        self._runners: list[Runner] = []
        self._loading: set[asyncio.Task[None]] = set()
        self._config = GroupConfig(
            session_timeout_min_ms=settings.groups.session_timeout_min_ms,
            session_timeout_max_ms=settings.groups.session_timeout_max_ms,
            initial_rebalance_delay_ms=settings.groups.initial_rebalance_delay_ms,
            group_size_max=settings.performance.group_max_size,
            offsets_retention_ms=settings.groups.offsets_retention_ms,
        )

    def start(self) -> None:
        """Load the groups that are there, in the background."""
        topic = self._topics.find(OFFSETS_TOPIC)
        if topic is None or self._runners:
            return
        for partition in topic.partitions:
            runner = Runner(partition, Coordinator(self._config, _new_id), self._now_ms)
            self._runners.append(runner)
            if partition.high_watermark == partition.log.start_offset:
                runner.run(runner.coordinator.loaded(self._now_ms()))
                continue
            task = asyncio.ensure_future(runner.load(self._off_loop))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)

    async def ensure(self) -> None:
        """Make the offsets topic at its first use."""
        if not self._runners:
            count = self._settings.groups.offsets_partitions
            try:
                await self._topics.ensure(OFFSETS_TOPIC, count, OFFSETS_CONFIGS)
            except ProtocolError as error:
                raise CoordinatorNotAvailable(f"groups cannot be kept now: {error}") from error
            self.start()

    async def runner_for(self, group_id: str) -> Runner:
        """The runner of a group's coordinator."""
        await self.ensure()
        return self._runners[partition_for(group_id, len(self._runners))]

    async def ask(self, group_id: str, request: Callable[[Coordinator], Ask]) -> Any:
        """Put a request to the coordinator of a group."""
        runner = await self.runner_for(group_id)
        return await runner.ask(request(runner.coordinator))

    def coordinators(self) -> Iterator[Coordinator]:
        """Every coordinator."""
        for runner in self._runners:
            yield runner.coordinator

    def topics_deleted(self, names: list[str]) -> None:
        """Topics are gone: forget what groups committed for them."""
        for runner in self._runners:
            runner.run(runner.coordinator.topics_deleted(names, self._now_ms()))

    def lags(self) -> Iterator[tuple[tuple[str, str, str], float]]:
        """(group, topic, partition) and how many messages its committed offset is behind."""
        for coordinator in self.coordinators():
            _, groups = coordinator.list_groups()
            for group in groups:
                result = coordinator.fetch_offsets(FetchOffsetsRequest(group.group_id))
                for (name, index), committed in result.offsets.items():
                    topic = self._topics.find(name)
                    if topic is not None and index < len(topic.partitions):
                        end = topic.partitions[index].high_watermark
                        lag = max(end - committed.offset, 0)
                        yield (group.group_id, name, str(index)), lag

    def close(self) -> None:
        """Answer everyone who waits and stop."""
        for task in self._loading:
            task.cancel()
        for runner in self._runners:
            runner.close()


def _new_id() -> str:
    return str(uuid4())


def _read_chunk(source: PartitionLog, offset: int) -> tuple[list[Record], int]:
    """Decode some records from `offset` on; returns them and where to go on. On a worker thread."""
    piece = source.read(offset, LOAD_CHUNK_BYTES, source.end_offset)
    if piece is None:
        return [], source.end_offset
    data = memoryview(piece.read())
    records: list[Record] = []
    for at, header in iter_headers(data):
        records.extend(decode_records(data[at : at + header.size]))
        offset = header.next_offset
    return records, offset
