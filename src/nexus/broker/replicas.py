"""Carries out here what the cluster has agreed on: which logs are kept, who leads, who follows.

Roles change at once, on the event loop, as the view does. What touches the disk is done by one
task, one topic after the other, and a role waits for its log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from nexus.broker.dispatch import spawn
from nexus.broker.fetcher import Fetcher
from nexus.broker.partition import Partition
from nexus.broker.throttle import Throttle
from nexus.broker.topic_config import effective
from nexus.broker.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, Topic
from nexus.cluster.controlling import PartitionKey
from nexus.cluster.following import Following
from nexus.cluster.leading import Leading, Mode, Rules
from nexus.cluster.partition_state import NOBODY, PartitionState, restarted
from nexus.cluster.port import fit_since
from nexus.observe.logs import get_logger
from nexus.wire.errors import ErrorCode, ProtocolError

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

log = get_logger(__name__)

LOOK_AFTER_SECONDS: Final = 0.1
ASK_AGAIN_SECONDS: Final = 1.0
TRY_AGAIN_SECONDS: Final = 1.0


class LastInSync(ProtocolError):
    """Raised when a broker cannot leave an in-sync set, since it is the last one there."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class Kept(Protocol):
    """Who keeps something in the partitions of an internal topic that are led here."""

    def gained(self, partition: Partition) -> None: ...
    def lost(self, partition: Partition) -> None: ...


class Replicas:
    """The partitions of this broker in a cluster; does nothing where it is alone."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._me = broker.settings.broker.id
        self._registered: int | None = None
        self._known: dict[PartitionKey, PartitionState] = {}
        self._fetchers: dict[int, Fetcher] = {}
        self._followed: dict[PartitionKey, int] = {}
        self._renewed: set[PartitionKey] = set()  # they take no role until their log is another
        self._pending: set[str] = set()
        self._has_pending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.throttle = Throttle(broker.settings.cluster.move_bytes_s, broker.loop.time)
        self.elections = 0
        self.shrinks = 0

    async def start(self) -> None:
        """Open what is agreed to be kept here, and take part."""
        if not self._broker.is_shared:
            return
        for name in list(self._broker.cluster.view.topics):
            await self._apply(name)
        for name in set(self._broker.store.topics) - set(self._broker.cluster.view.topics):
            log.warning("the cluster does not know a topic that is kept here", topic=name)
        loop = self._broker.loop
        self._tasks = [spawn(loop, self._carry_out()), spawn(loop, self._look_after())]

    async def stop(self) -> None:
        """Lead and follow nothing; safe to call twice."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(fetcher.stop() for fetcher in self._fetchers.values()))
        self._fetchers.clear()

    def led(self) -> list[Partition]:
        """The partitions that are led here."""
        return [one for one in self._broker.topics.partitions() if one.leading is not None]

    def copied(self) -> dict[PartitionKey, int]:
        """What is here, in bytes, of the partitions that are followed and not in sync yet."""
        states = {key: self._broker.cluster.view.partitions.get(key) for key in self._followed}
        return {
            key: partition.log.size_bytes
            for key, state in states.items()
            if state is not None and self._me not in state.in_sync
            if (partition := self._local(key)) is not None
        }

    @property
    def errors(self) -> int:
        """Failed attempts to copy."""
        return sum(fetcher.errors for fetcher in self._fetchers.values())

    # What the cluster tells -------------------------------------------------------------------

    def registered(self, version: int) -> None:
        """This process was admitted: what it knew before may be a leadership that is over."""
        self._registered = version
        self._known.clear()
        for partition in self._broker.topics.partitions():
            self._step_down(partition)
            self._learn((partition.topic, partition.index))

    def unregistered(self) -> None:
        """Another may be elected from now on: lead nothing."""
        self._registered = None
        for partition in self.led():
            self._step_down(partition)
            self._known.pop((partition.topic, partition.index), None)

    def changed(self, keys: set[PartitionKey], topics: set[str]) -> None:
        """Take up roles now, and have the rest done."""
        for key in keys:
            self._learn(key)
        for fetcher in self._fetchers.values():
            fetcher.look_again()
        self._broker.router.look_again()
        self._pending |= topics
        self._pending |= {key[0] for key in keys if self._is_misplaced(key)}
        if self._pending:
            self._has_pending.set()

    def failed(self, partition: Partition) -> None:
        """The disk failed: let others go on without this broker, whether it led or followed."""
        state = self._known.get((partition.topic, partition.index))
        if state is None:
            return
        self._note_groups(partition, was_leader=True)
        self._leave(partition, state)

    def came_back(self, partition: Partition) -> None:
        """The disk works again: begin anew."""
        if self._broker.is_shared:
            self._step_down(partition)
            self._known.pop((partition.topic, partition.index), None)
            self._learn((partition.topic, partition.index))

    # Roles ------------------------------------------------------------------------------------

    def _learn(self, key: PartitionKey) -> None:
        state = self._broker.cluster.view.partitions.get(key)
        partition = self._local(key)
        if state is None or partition is None:
            return
        known = self._known.get(key)
        if known is not None and state.version <= known.version:
            return
        self._known[key] = state
        if key in self._renewed:
            return
        leading = partition.leading
        if leading is not None and leading.state.epoch == state.epoch:
            self._count_shrink(leading, state)
            partition.agreed(state)
            return
        is_admitted = self._registered is not None and state.version > self._registered
        if state.leader == self._me and is_admitted:
            self._lead(partition, state)
        elif state.leader not in (self._me, NOBODY) and self._me in state.replicas:
            self._follow(partition, state)
        else:
            self._step_down(partition, state.epoch)

    def _lead(self, partition: Partition, state: PartitionState) -> None:
        was_leader = partition.is_leader
        self._unfollow(partition)
        rules = self._rules(self._broker.topics.topic(partition.topic))
        if partition.lead(state, self._me, rules, self._broker.loop.time()):
            self.elections += 1
        else:
            self._leave(partition, state)
        self._note_groups(partition, was_leader=was_leader)

    def _follow(self, partition: Partition, state: PartitionState) -> None:
        if partition.log.failure is not None:
            self._leave(partition, state)
        now = partition.following
        if now is not None and (now.leader, now.epoch) == (state.leader, state.epoch):
            return
        was_leader = partition.is_leader
        self._unfollow(partition)
        partition.follow(Following(state.leader, state.epoch))
        self._followed[partition.topic, partition.index] = state.leader
        if state.leader not in self._fetchers:
            self._fetchers[state.leader] = Fetcher(self._broker, state.leader, self.throttle)
        self._fetchers[state.leader].add(partition)
        self._note_groups(partition, was_leader=was_leader)

    def _step_down(self, partition: Partition, epoch: int | None = None) -> None:
        was_leader = partition.is_leader
        self._unfollow(partition)
        partition.step_down(partition.leader_epoch if epoch is None else epoch)
        self._note_groups(partition, was_leader=was_leader)

    def _unfollow(self, partition: Partition) -> None:
        leader = self._followed.pop((partition.topic, partition.index), None)
        if leader is not None:
            self._fetchers[leader].remove(partition)

    def _note_groups(self, partition: Partition, *, was_leader: bool) -> None:
        if partition.topic == OFFSETS_TOPIC:
            kept: Kept = self._broker.groups
        elif partition.topic == SHARE_STATE_TOPIC:
            kept = self._broker.sharing.states
        else:
            return
        if was_leader:
            kept.lost(partition)
        if partition.is_leader:
            kept.gained(partition)

    def _local(self, key: PartitionKey) -> Partition | None:
        """The partition, unless it is one of another topic that had the same name."""
        topic, info = self._broker.topics.find(key[0]), self._broker.cluster.view.topics.get(key[0])
        if topic is None or info is None or info.topic_id != topic.topic_id:
            return None
        return topic.partitions.get(key[1])

    def _rules(self, topic: Topic) -> Rules:
        settings = self._broker.settings.replication
        values = effective(self._broker.settings, topic.count, topic.configs)
        mode = cast("Mode", values["replication.mode"])
        is_fixed = self._broker.cluster.view.is_fixed
        return Rules(
            lag_s=settings.replica_lag_time_max_ms / 1000,
            lag_records=settings.replica_lag_records_max,
            min_in_sync=1 if is_fixed else int(values["min.insync.replicas"]),
            mode=mode,
        )

    def _count_shrink(self, leading: Leading, state: PartitionState) -> None:
        if len(state.in_sync) < len(leading.state.in_sync):
            self.shrinks += 1

    # What a leader asks for -------------------------------------------------------------------

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AFTER_SECONDS)
            now, fit = self._broker.loop.time(), fit_since(self._broker.cluster.view.members)
            for partition in self.led():
                leading = partition.leading
                proposal = leading.propose(now, fit) if leading is not None else None
                if leading is not None and proposal is not None:
                    spawn(self._broker.loop, self._ask_for(partition, leading, proposal))

    async def _ask_for(
        self, partition: Partition, leading: Leading, proposal: PartitionState
    ) -> None:
        """Ask until there is an answer: the same change twice is one, since it is compared."""
        key = (partition.topic, partition.index)
        log.info("in sync", topic=key[0], partition=key[1], brokers=list(proposal.in_sync))
        while partition.leading is leading and leading.proposal is proposal:
            try:
                await self._broker.cluster.propose(key, proposal)
            except ProtocolError as error:
                log.warning("the in-sync set cannot be changed now", why=str(error))
            # Taken or not, what holds now comes with the view.
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    def _leave(self, partition: Partition, state: PartitionState) -> None:
        """Say at once that this broker cannot lead, or keep up: nobody need find out by waiting."""
        if self._me in (state.leader, *state.in_sync):
            key = (partition.topic, partition.index)
            log.warning("leaving the in-sync set", topic=key[0], partition=key[1])
            spawn(self._broker.loop, self._resign(key, state))

    async def _resign(self, key: PartitionKey, state: PartitionState) -> None:
        """End an epoch that cannot be led to its end, and a place in the in-sync set."""
        wanted = restarted(state, self._me, kept_all=False)
        while wanted != state and self._known.get(key) is state and not self._broker.is_stopping:
            try:
                await self._broker.cluster.propose(key, wanted)
            except ProtocolError as error:
                log.warning("the in-sync set cannot be left now", why=str(error))
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _left(self, key: PartitionKey) -> None:
        """Leave the in-sync set for good; LastInSync where nobody else is in it."""
        while (state := self._broker.cluster.view.state(*key)) is not None:
            wanted = restarted(state, self._me, kept_all=False)
            if self._me not in (state.leader, *state.in_sync):
                return
            if self._me in wanted.in_sync:
                raise LastInSync(f"{key[0]}/{key[1]}: no other broker is in sync")
            await self._broker.cluster.propose(key, wanted)
            await asyncio.sleep(LOOK_AFTER_SECONDS)

    # What touches the disk --------------------------------------------------------------------

    async def renew(self, partition: Partition) -> None:
        """Set a log aside and copy all of it anew, as a broker would that never had it."""
        key = (partition.topic, partition.index)
        self._renewed.add(key)
        try:
            # Who follows nobody is not taken back into the set meanwhile.
            self._step_down(partition)
            await self._left(key)
            await self._broker.topics.release(*key, keep=True)
        finally:
            self._renewed.discard(key)
            self._known.pop(key, None)
            self._learn(key)
            self._again(key[0])

    def _is_misplaced(self, key: PartitionKey) -> bool:
        state = self._broker.cluster.view.partitions.get(key)
        is_wanted = state is not None and self._me in state.replicas
        return is_wanted != (self._local(key) is not None)

    async def _carry_out(self) -> None:
        while True:
            await self._has_pending.wait()
            self._has_pending.clear()
            pending, self._pending = self._pending, set()
            for name in sorted(pending):
                try:
                    await self._apply(name)
                except ProtocolError as error:
                    log.error("a topic cannot be kept as agreed", topic=name, why=str(error))
                    self._broker.loop.call_later(TRY_AGAIN_SECONDS, self._again, name)

    def _again(self, name: str) -> None:
        self._pending.add(name)
        self._has_pending.set()

    async def _apply(self, name: str) -> None:
        view, topics = self._broker.cluster.view, self._broker.topics
        info = view.topics.get(name)
        known = topics.find(name)
        if known is not None and (info is None or info.topic_id != known.topic_id):
            self._forget(known)
            # An etcd that lost its data must not take the brokers' data with it.
            await topics.forget(name, keep=name not in view.deleted)
            self._broker.topic_deleted(name)
        if info is None:
            return
        mine = [
            number
            for number in range(info.partitions)
            if (state := view.state(name, number)) is not None and self._me in state.replicas
        ]
        topic = await topics.adopt(info, mine)
        rules = self._rules(topic)
        for number in mine:
            self._learn((name, number))
            leading = topic.partitions[number].leading
            if leading is not None:
                leading.rules = rules
        for number in sorted(topics.kept(name) - set(mine)):
            if view.is_fixed:
                self._withhold(topic, number)
            else:
                await self._release(topic, number)

    def _withhold(self, topic: Topic, number: int) -> None:
        """Serve a log no more that is another broker's by the list of peers; it stays here."""
        log.error(
            "a log is another broker's now: it is kept, and not served",
            topic=topic.name,
            partition=number,
        )
        partition = topic.partitions.pop(number, None)
        self._known.pop((topic.name, number), None)
        if partition is not None:
            self._step_down(partition)

    async def _release(self, topic: Topic, number: int) -> None:
        state = self._broker.cluster.view.state(topic.name, number)
        if state is None or self._me in state.replicas:
            return
        log.info("a partition is kept elsewhere now", topic=topic.name, partition=number)
        partition = topic.partitions.get(number)
        if partition is not None:
            self._step_down(partition)
        self._known.pop((topic.name, number), None)
        await self._broker.topics.release(topic.name, number)

    def _forget(self, topic: Topic) -> None:
        for number, partition in topic.partitions.items():
            self._step_down(partition)
            self._known.pop((topic.name, number), None)
