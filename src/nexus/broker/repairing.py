"""Damaged batches: found when they are read or by scrubbing, and replaced by a sound copy.

The copy comes from another broker that is in sync, whoever leads. Until it is there the batch is
not served, and nothing is cut: what was acknowledged stays acknowledged. Where nobody has a sound
copy the damage stays as it is, and is said again.

Of a compacted log brokers hold different batches, each a sound whole: between parts of two such
logs a deletion can get lost, and a value come back. So where no copy is of the same batch, all of
the log is taken from another broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from nexus.broker.comparing import check_copy, read_copy
from nexus.broker.dispatch import spawn
from nexus.broker.partition import Partition
from nexus.broker.peer import Peer
from nexus.cluster.controlling import PartitionKey
from nexus.cluster.port import Member
from nexus.log.mending import CannotMend, damage_near, mend, wanted_from
from nexus.log.verify import Corruption
from nexus.observe.logs import get_logger
from nexus.settings.units import UNLIMITED
from nexus.wire.errors import CorruptMessage, ErrorCode, ProtocolError

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

log = get_logger(__name__)

AGAIN_SECONDS_FIRST: Final = 0.2
AGAIN_SECONDS_MAX: Final = 30.0
# Scrubbing takes at most a tenth of a thread: it rests nine times as long as it read.
REST_FACTOR: Final = 9


class Repairs:
    """What is damaged here, and the work on it: one partition at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: dict[PartitionKey, asyncio.Task[None]] = {}
        self._scrubbing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        # The first damage of each partition that has some, by what is wrong.
        self.damaged: dict[PartitionKey, str] = {}

    def start(self) -> None:
        """Take up what was found when the logs were opened, and look for more now and then."""
        for partition in self._broker.topics.partitions():
            for one in partition.log.holes:
                self.found(partition, one.offset)
        if self._broker.settings.storage.scrub_interval_ms != UNLIMITED:
            self._scrubbing = spawn(self._broker.loop, self._scrub())

    async def stop(self) -> None:
        """End the work; what is on a thread is waited for."""
        tasks = [*self._tasks.values(), *([self._scrubbing] if self._scrubbing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def found(self, partition: Partition, offset: int) -> ErrorCode:
        """A batch is damaged: have it replaced. Returns what a client is told that asked for it."""
        key = (partition.topic, partition.index)
        if key not in self._tasks and not self._broker.is_stopping:
            self._broker.metrics.corruptions.inc()
            log.error("a batch is damaged", topic=key[0], partition=key[1], offset=offset)
            self.damaged[key] = f"offset {offset}"
            task = spawn(self._broker.loop, self._mend(partition, offset))
            self._tasks[key] = task
            task.add_done_callback(lambda _: self._tasks.pop(key, None))
        # Clients ask again after the first, and give up after the second.
        is_mended = any(self._sound(key))
        return ErrorCode.KAFKA_STORAGE_ERROR if is_mended else ErrorCode.CORRUPT_MESSAGE

    def is_held_elsewhere(self, partition: Partition) -> bool:
        """Whether other brokers should have a copy, if they live or not."""
        state = self._broker.cluster.view.state(partition.topic, partition.index)
        return state is not None and len(state.replicas) > 1

    async def _mend(self, partition: Partition, offset: int) -> None:
        key = (partition.topic, partition.index)
        pause, said = AGAIN_SECONDS_FIRST, ""
        while not partition.is_retired:
            try:
                async with self._one_at_a_time:
                    await self._mend_segment(partition, offset)
                break
            except (OSError, TimeoutError, ProtocolError) as error:
                why = f"{type(error).__name__}: {error}"
            if why != said:
                said = why
                log.error("a batch cannot be mended yet", topic=key[0], partition=key[1], why=why)
            await asyncio.sleep(pause)
            pause = min(pause * 2, AGAIN_SECONDS_MAX)
        self.damaged.pop(key, None)
        if not partition.is_retired:
            log.warning("a log is whole again", topic=key[0], partition=key[1])

    async def _mend_segment(self, partition: Partition, offset: int) -> None:
        """Replace all that is damaged in the segment that holds an offset."""
        broker = self._broker
        if not any(self._sound((partition.topic, partition.index))):
            raise CannotMend("no other broker is in sync")
        while not partition.is_retired:
            bad = await broker.off_loop(damage_near, partition.log, offset)
            if bad is None:
                return
            self.damaged[partition.topic, partition.index] = f"offset {bad.offset}: {bad.what}"
            await self._replace(partition, bad)
            broker.metrics.repairs.inc()

    async def _replace(self, partition: Partition, bad: Corruption) -> None:
        """Take the copy of the first broker that has one which fits."""
        key = (partition.topic, partition.index)
        offset = await self._broker.off_loop(wanted_from, partition.log, bad)
        refused: Exception = CannotMend(f"{bad}: nobody has a copy")
        for member in self._sound(key):
            peer = Peer(member.host, member.port, f"nexus-broker-{self._broker.settings.broker.id}")
            try:
                data = await read_copy(peer, *key, offset)
                copies = memoryview(data.records or b"")  # type: ignore[arg-type]
                await self._broker.off_loop(mend, partition.log, bad, copies)
            except (OSError, TimeoutError, CorruptMessage) as error:
                refused = error
                continue
            finally:
                peer.close()
            log.warning("a batch was mended", topic=key[0], partition=key[1], by=member.id)
            return
        if not partition.log.config.compact or not isinstance(refused, CorruptMessage):
            raise refused
        await self._take_all(partition)

    async def _take_all(self, partition: Partition) -> None:
        """Begin anew with another broker's log, once every one that may lead has a sound one."""
        key = (partition.topic, partition.index)
        for member in self._sound(key):
            await check_copy(*key, (member.host, member.port))
        log.warning("a log is copied anew, as a whole", topic=key[0], partition=key[1])
        await self._broker.replicas.renew(partition)

    def _sound(self, key: PartitionKey) -> Iterator[Member]:
        """The other brokers that have all that is acknowledged, the leader first."""
        view = self._broker.cluster.view
        state = view.state(*key)
        if state is not None:
            me = self._broker.settings.broker.id
            for node in sorted(state.in_sync, key=lambda one: one != state.leader):
                if node != me and node in view.members:
                    yield view.members[node]

    # Looking for damage -----------------------------------------------------------------------

    async def _scrub(self) -> None:
        while True:
            await asyncio.sleep(self._broker.settings.storage.scrub_interval_ms / 1000)
            for partition in self._broker.topics.partitions():
                await self._scrub_one(partition)

    async def _scrub_one(self, partition: Partition) -> None:
        loop = self._broker.loop
        for segment in partition.log.segments:
            began = loop.time()
            try:
                bad = await self._broker.off_loop(damage_near, partition.log, segment.base_offset)
            except OSError as error:  # retention took it, or the disk is failing
                log.debug("a segment was not scrubbed", why=str(error))
                continue
            if bad is not None:
                self.found(partition, bad.offset)
            await asyncio.sleep((loop.time() - began) * REST_FACTOR)
