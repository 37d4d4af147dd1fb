"""Runs the group coordinators: one pure `Coordinator` for each partition of the offsets topic that
is led here.

Requests go in, replies come out as futures, and what a coordinator wants stored is appended to its
partition like any other acks=all write. A coordinator answers "loading" until it has replayed its
partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from nexus.broker.admin import Admin
from nexus.broker.keeping import Damaged, Keepers, OffLoop, replay
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
from nexus.observe.logs import get_logger
from nexus.wire.batch import read_header
from nexus.wire.errors import ErrorCode, ProtocolError
from nexus.wire.records import Record, encode_batch

if TYPE_CHECKING:
    from nexus.settings import BrokerSettings

log = get_logger(__name__)

OFFSETS_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 << 20),
    # A rebalance of a large group is one record with every member in it.
    "max.message.bytes": str(64 << 20),
}


Ask = Callable[[object, int], Effects]
LeaderOf = Callable[[str, int], int]


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

    async def load(self, off_loop: OffLoop, damaged: Damaged) -> None:
        """Replay the partition, then serve."""
        async for records in replay(self.partition, off_loop, damaged):
            self.coordinator.load((record.key, record.value) for record in records)
        if self.coordinator.skipped_records:
            log.warning(
                "unreadable group records were skipped",
                partition=self.partition.index,
                records=self.coordinator.skipped_records,
            )
        self.begin()

    def begin(self) -> None:
        """Serve, with what was loaded."""
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


class Coordination(Keepers[Runner]):
    """All groups of this broker, found by their id."""

    def __init__(
        self,
        topics: Topics,
        admin: Admin,
        leader_of: LeaderOf,
        settings: BrokerSettings,
        *,
        now_ms: Callable[[], int],
        off_loop: OffLoop,
        damaged: Damaged,
    ) -> None:
        super().__init__(
            OFFSETS_TOPIC,
            OFFSETS_CONFIGS,
            topics,
            admin,
            settings,
            off_loop=off_loop,
            damaged=damaged,
        )
        self._leader_of = leader_of
        self._now_ms = now_ms
        self._config = GroupConfig(
            session_timeout_min_ms=settings.groups.session_timeout_min_ms,
            session_timeout_max_ms=settings.groups.session_timeout_max_ms,
            initial_rebalance_delay_ms=settings.groups.initial_rebalance_delay_ms,
            group_size_max=settings.performance.group_max_size,
            offsets_retention_ms=settings.groups.offsets_retention_ms,
        )

    def _keeper_of(self, partition: Partition) -> Runner:
        return Runner(partition, Coordinator(self._config, _new_id), self._now_ms)

    async def coordinator_of(self, group_id: str) -> int:
        """The broker that coordinates a group; -1 while nobody does."""
        topic = await self.ensure()
        return self._leader_of(OFFSETS_TOPIC, partition_for(group_id, topic.count))

    async def runner_for(self, group_id: str) -> Runner:
        """The runner of a group's coordinator; one that refuses all where that is not here."""
        topic = await self.ensure()
        index = partition_for(group_id, topic.count)
        return self._kept.get(index) or self._elsewhere()

    def _elsewhere(self) -> Runner:
        coordinator = Coordinator(self._config, _new_id)
        coordinator.close()
        # It is never asked to store anything, so it needs no partition.
        return Runner(None, coordinator, self._now_ms)  # type: ignore[arg-type]

    async def ask(self, group_id: str, request: Callable[[Coordinator], Ask]) -> Any:
        """Put a request to the coordinator of a group."""
        runner = await self.runner_for(group_id)
        return await runner.ask(request(runner.coordinator))

    def coordinators(self) -> Iterator[Coordinator]:
        """Every coordinator."""
        for runner in self._kept.values():
            yield runner.coordinator

    def topics_deleted(self, names: list[str]) -> None:
        """Topics are gone: forget what groups committed for them."""
        for runner in list(self._kept.values()):
            runner.run(runner.coordinator.topics_deleted(names, self._now_ms()))

    def lags(self) -> Iterator[tuple[tuple[str, str, str], float]]:
        """(group, topic, partition) and how many messages its committed offset is behind."""
        for coordinator in self.coordinators():
            _, groups = coordinator.list_groups()
            for group in groups:
                result = coordinator.fetch_offsets(FetchOffsetsRequest(group.group_id))
                for (name, index), committed in result.offsets.items():
                    topic = self._topics.find(name)
                    here = None if topic is None else topic.partitions.get(index)
                    if here is not None:
                        end = here.high_watermark
                        lag = max(end - committed.offset, 0)
                        yield (group.group_id, name, str(index)), lag


def _new_id() -> str:
    return str(uuid4())
