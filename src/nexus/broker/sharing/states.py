"""Keeps the states of share groups in the partitions of the state topic that are led here.

A read or a write is answered once it is as durable as any acks=all message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID

from nexus.broker.admin import Admin
from nexus.broker.coordination import LeaderOf
from nexus.broker.keeping import Damaged, Keepers, OffLoop, replay
from nexus.broker.partition import FencedLeaderEpoch, Partition
from nexus.broker.topics import SHARE_STATE_TOPIC, Topics
from nexus.groups import partition_for
from nexus.groups.sharing.effects import Record as State
from nexus.groups.sharing.state_log import Fenced, KeyValue, StateKey, StateLog
from nexus.observe.logs import get_logger
from nexus.settings import BrokerSettings
from nexus.wire.batch import read_header
from nexus.wire.errors import ErrorCode, ProtocolError
from nexus.wire.records import Record, encode_batch

log = get_logger(__name__)

STATE_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 << 20),
    "max.message.bytes": str(16 << 20),
}
# So many for each broker of a static cluster that by any hash each leads at least one.
PARTITIONS_OF_A_PEER: Final = 16


class StateLoading(ProtocolError):
    """Raised while the state is read from the log."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class StateElsewhere(ProtocolError):
    """Raised when another broker keeps the state."""

    code = ErrorCode.NOT_COORDINATOR


class _Keeper:
    """One partition of the state topic."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.states = StateLog()
        self.loaded = asyncio.Event()

    async def load(self, off_loop: OffLoop, damaged: Damaged) -> None:
        async for records in replay(self.partition, off_loop, damaged):
            self.states.load((record.key, record.value) for record in records)
        if self.states.skipped:
            log.warning("unreadable share states were skipped", records=self.states.skipped)
        self.begin()

    def begin(self) -> None:
        """Serve, with what was loaded."""
        self.loaded.set()

    def close(self) -> None:
        """Nobody need wait for it."""
        self.loaded.set()

    async def store(self, entries: list[KeyValue], now_ms: int) -> None:
        records = [Record(at, now_ms, key, value) for at, (key, value) in enumerate(entries)]
        batch = memoryview(encode_batch(records))
        self.partition.check_writable(by_all=True)
        appended = self.partition.append(batch, read_header(batch))
        await self.partition.safe(appended.last_offset + 1)


class States(Keepers[_Keeper]):
    """All states that are kept here, and the way to who keeps the others."""

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
            SHARE_STATE_TOPIC,
            STATE_CONFIGS,
            topics,
            admin,
            settings,
            off_loop=off_loop,
            damaged=damaged,
        )
        self._leader_of = leader_of
        self._now_ms = now_ms

    def _keeper_of(self, partition: Partition) -> _Keeper:
        return _Keeper(partition)

    def _partitions(self) -> int:
        """As many as consumer groups have; of static brokers each is to lead some of them."""
        peers = len(self._settings.cluster.peers)
        is_static = self._settings.cluster.mode == "static"
        least = PARTITIONS_OF_A_PEER * peers if is_static else 1
        return max(self._settings.groups.offsets_partitions, least)

    async def place(self, topic: str, topic_id: UUID, index: int) -> int:
        """The partition of the state topic for a data partition."""
        count = (await self.ensure()).count
        first = partition_for(f"{topic_id}:{index}", count)
        if self._settings.cluster.mode != "static":
            return first
        # Its own broker has it up whenever it is up itself.
        owner = self._leader_of(topic, index)
        places = [(first + step) % count for step in range(count)]
        own = (at for at in places if self._leader_of(SHARE_STATE_TOPIC, at) == owner)
        return next(own, first)

    async def read(self, place: int, key: StateKey, epoch: int) -> State:
        """What is stored for a partition; earlier leaders of it are shut out from now on."""
        keeper = self._keeper(place)
        try:
            state, records = keeper.states.read(key, epoch)
        except Fenced as fenced:
            raise FencedLeaderEpoch(str(fenced)) from fenced
        await self._store(keeper, records)
        return state

    async def write(self, place: int, key: StateKey, epoch: int, change: State) -> None:
        """Add a change to what is stored for a partition."""
        keeper = self._keeper(place)
        try:
            records = keeper.states.write(key, epoch, change)
        except Fenced as fenced:
            raise FencedLeaderEpoch(str(fenced)) from fenced
        await self._store(keeper, records)

    def groups(self, place: int, topic_id: UUID, index: int) -> list[str]:
        """The groups that have a state for a partition."""
        return self._keeper(place).states.groups(topic_id, index)

    def all_groups(self) -> set[str]:
        """Every group whose state is kept here, as far as it is loaded."""
        return set().union(*(keeper.states.all_groups() for keeper in self._kept.values()))

    async def forget(self, topic_id: UUID) -> None:
        """A topic is deleted: its states are of no use."""
        for keeper in list(self._kept.values()):
            if keeper.loaded.is_set() and (records := keeper.states.forget(topic_id)):
                await self._store(keeper, records)

    def _keeper(self, place: int) -> _Keeper:
        keeper = self._kept.get(place)
        if keeper is None:
            raise StateElsewhere(f"{SHARE_STATE_TOPIC}/{place} is not led here")
        if not keeper.loaded.is_set():
            raise StateLoading(f"{SHARE_STATE_TOPIC}/{place} is being loaded")
        return keeper

    async def _store(self, keeper: _Keeper, records: list[KeyValue]) -> None:
        try:
            await keeper.store(records, self._now_ms())
        except ProtocolError:
            # What is in memory may be ahead of the log: begin anew with what the log has.
            if self._kept.get(keeper.partition.index) is keeper:
                if keeper.partition.is_leader:
                    self.gained(keeper.partition)
                else:
                    self.lost(keeper.partition)
            raise
