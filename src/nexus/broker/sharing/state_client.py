"""Reads and writes states wherever they are kept: here, or at another broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar
from uuid import UUID

from nexus.broker.partition import FencedLeaderEpoch
from nexus.broker.sharing.peers import PeerRefused, Peers
from nexus.broker.sharing.states import States
from nexus.broker.topics import SHARE_STATE_TOPIC
from nexus.cluster.partition_state import NOBODY
from nexus.groups.sharing.effects import Record
from nexus.groups.sharing.ranges import runs_of
from nexus.groups.sharing.state_log import StateKey
from nexus.wire.apis import ApiKey
from nexus.wire.errors import ErrorCode, ProtocolError
from nexus.wire.messages.read_share_group_state import PartitionData as ReadPartition
from nexus.wire.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStateData,
    StateBatch,
)
from nexus.wire.messages.write_share_group_state import PartitionData as WritePartition
from nexus.wire.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStateData,
)

AGAIN_SECONDS: Final = 0.1
AVAILABLE, FINISHED = 0, 2  # Kafka's numbers for the state of a delivery

T = TypeVar("T")


class StateClient:
    """The way to every state."""

    def __init__(self, states: States, peers: Peers) -> None:
        self._states = states
        self._peers = peers

    async def read(self, topic: str, key: StateKey, epoch: int) -> Record:
        """What is stored for a partition that is led here in an epoch."""
        place = await self._states.place(topic, key.topic_id, key.partition)
        leader = self._peers.leader_of(SHARE_STATE_TOPIC, place)
        if self._peers.is_me(leader):
            return await self._states.read(place, key, epoch)
        wanted = ReadPartition(partition=key.partition, leader_epoch=epoch)
        request = ReadShareGroupStateRequest(
            group_id=key.group, topics=[ReadStateData(topic_id=key.topic_id, partitions=[wanted])]
        )
        answer = await self._ask(leader, ApiKey.READ_SHARE_GROUP_STATE, request)
        return from_batches(answer.start_offset, answer.state_batches)

    @property
    def is_in_use(self) -> bool:
        """Whether any group ever stored anything."""
        return self._peers.leader_of(SHARE_STATE_TOPIC, 0) != NOBODY

    async def groups(self, topic: str, topic_id: UUID, index: int) -> list[str]:
        """The groups that have a state for a partition, which is led here."""
        place = await self._states.place(topic, topic_id, index)
        leader = self._peers.leader_of(SHARE_STATE_TOPIC, place)
        if self._peers.is_me(leader):
            return self._states.groups(place, topic_id, index)
        wanted = ReadPartition(partition=index)
        request = ReadShareGroupStateRequest(
            group_id="", topics=[ReadStateData(topic_id=topic_id, partitions=[wanted])]
        )
        answer = await self._ask(leader, ApiKey.READ_SHARE_GROUP_STATE, request)
        groups: list[str] = answer.groups
        return groups

    async def write(self, topic: str, key: StateKey, epoch: int, change: Record) -> None:
        """Add a change for a partition that is led here in an epoch."""
        place = await self._states.place(topic, key.topic_id, key.partition)
        leader = self._peers.leader_of(SHARE_STATE_TOPIC, place)
        if self._peers.is_me(leader):
            await self._states.write(place, key, epoch, change)
            return
        changed = WritePartition(
            partition=key.partition,
            leader_epoch=epoch,
            start_offset=change.start,
            state_batches=to_batches(change),
        )
        request = WriteShareGroupStateRequest(
            group_id=key.group, topics=[WriteStateData(topic_id=key.topic_id, partitions=[changed])]
        )
        await self._ask(leader, ApiKey.WRITE_SHARE_GROUP_STATE, request)

    async def _ask(self, node: int, key: ApiKey, request: object) -> Any:
        """The one result in the answer to a request about one partition."""
        answer = await self._peers.ask(node, key, 0, request)
        result = answer.results[0].partitions[0]
        if result.error_code == ErrorCode.FENCED_LEADER_EPOCH:
            raise FencedLeaderEpoch(result.error_message or "a later leader was seen")
        if result.error_code:
            raise PeerRefused(result.error_message or ErrorCode(result.error_code).name)
        return result


async def persistently(work: Callable[[], Awaitable[T]], is_over: Callable[[], bool]) -> T:
    """Try until it is done; FencedLeaderEpoch, or the last error once it is over."""
    while True:
        try:
            return await work()
        except FencedLeaderEpoch:
            raise
        except ProtocolError:
            if is_over():
                raise
            await asyncio.sleep(AGAIN_SECONDS)


def to_batches(record: Record) -> list[StateBatch]:
    """A record as Kafka writes it."""
    finished = [
        StateBatch(first_offset=first, last_offset=last, delivery_state=FINISHED)
        for first, last in record.finished
    ]
    return finished + [
        StateBatch(
            first_offset=first, last_offset=last, delivery_state=AVAILABLE, delivery_count=count
        )
        for first, last, count in runs_of(record.attempts)
    ]


def from_batches(start: int, batches: list[StateBatch]) -> Record:
    """What was written so."""
    finished = [b for b in batches if b.delivery_state == FINISHED]
    tried = [b for b in batches if b.delivery_state == AVAILABLE]
    return Record(
        start,
        tuple((b.first_offset, b.last_offset) for b in finished),
        tuple(
            (offset, b.delivery_count)
            for b in tried
            for offset in range(b.first_offset, b.last_offset + 1)
        ),
    )
