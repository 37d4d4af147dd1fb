"""What an operator does with a cluster from outside: look, plan, move, drain.

A move is written as a partition's target; the brokers carry it out, and the controller ends it
once every new replica is in sync. Nothing here has to go on for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from time import monotonic
from typing import Final, NamedTuple

from nexus.cluster.assignment.dynamic import Loads, carried_by, rebalanced
from nexus.cluster.assignment.moves import Change, Plan, plan
from nexus.cluster.assignment.port import Assignment, Node, Replicas, Wanted
from nexus.cluster.choosing import STRATEGY, assignment_of, strategy_for
from nexus.cluster.controlling import PartitionKey
from nexus.cluster.errors import ClusterError, NotEnoughBrokers
from nexus.cluster.etcd.keys import Places, state_of, state_value
from nexus.cluster.etcd.viewing import Viewing
from nexus.cluster.partition_state import moving
from nexus.cluster.port import View
from nexus.etcd import (
    Client,
    EtcdConfig,
    EtcdError,
    Keys,
    KeyValue,
    Put,
    connect,
    endpoints_of,
    mod_revision,
)

_ATTEMPTS: Final = 10
_LOOK_SECONDS: Final = 0.3


class Progress(NamedTuple):
    """How far the moves are; bytes as the brokers report them, now and then."""

    done: int
    moving: int
    waiting: int
    copied_bytes: int = 0
    all_bytes: int = 0
    left_s: float | None = None  # None where nobody can tell yet


class Operator:
    """One look at a cluster, and changes to it."""

    def __init__(self, client: Client, cluster_id: str) -> None:
        self._client = client
        self._viewing = Viewing(Places.of(cluster_id))

    @property
    def view(self) -> View:
        return self._viewing.view

    async def look(self) -> View:
        """The cluster as it is now."""
        items: list[KeyValue] = []
        revision = 0
        async for page in self._client.scan(Keys.prefix(self._viewing.places.root)):
            items += page.items
            revision = revision or page.revision
        self._viewing.list(items, revision)
        return self.view

    def plan(self, strategy: str, without: Collection[int] = ()) -> Plan:
        """What would move if all topics were spread anew over the brokers there are.

        ClusterError when a topic would not find enough brokers.
        """
        view = self.view
        nodes = [
            Node(node, member.rack)
            for node, member in sorted(view.members.items())
            if node not in without
        ]
        before = assignment_of(view)
        by_load: dict[str, tuple[Replicas, ...]] = {}
        after: dict[str, tuple[Replicas, ...]] = {}
        for name, replicas in before.items():
            own = view.topics[name].configs.get(STRATEGY, strategy)
            if own == "dynamic":
                by_load[name] = replicas
            elif replicas:
                wanted = Wanted(name, len(replicas), _replication(replicas))
                after[name] = strategy_for(own, before).assign(wanted, nodes)
        if by_load:
            staying = _moved_off(by_load, nodes, without)
            after.update(_evened(staying, view.loads, nodes))
        return plan(before, after)

    def drained(self, without: Collection[int]) -> Plan:
        """What would move off brokers, each replica to the broker that carries least.

        ClusterError when those that stay are too few.
        """
        before = assignment_of(self.view)
        nodes = [Node(node, m.rack) for node, m in self.view.members.items()]
        return plan(before, _moved_off(before, nodes, without))

    async def move(
        self, changes: Collection[Change], at_once: int, tell: Callable[[Progress], None]
    ) -> None:
        """Make the moves, so many at a time, until all are done."""
        waiting = list(changes)
        under_way: set[PartitionKey] = set()
        copying = _Copying(self.view, changes)
        while waiting or under_way:
            while waiting and len(under_way) < at_once:
                change = waiting.pop(0)
                key = (change.topic, change.partition)
                if await self._aim(key, change.after):
                    under_way.add(key)
            view = await self.look()
            under_way = {
                key
                for key in under_way
                if (state := view.partitions.get(key)) is not None and state.target
            }
            done = len(changes) - len(waiting) - len(under_way)
            bytes_ = copying.measure(view, under_way, {(c.topic, c.partition) for c in waiting})
            tell(Progress(done, len(under_way), len(waiting), *bytes_))
            await asyncio.sleep(_LOOK_SECONDS)

    async def _aim(self, key: PartitionKey, target: Replicas) -> bool:
        """Write down where a partition should be; false when it is not there any more."""
        place = self._viewing.places.partition(key)
        for _ in range(_ATTEMPTS):
            item = await self._client.get(place)
            if item is None:
                return False
            state = state_of(item)
            aimed = moving(state, target)
            if set(target) == set(state.replicas):
                aimed = replace(state, replicas=target, target=())
            leader = self._viewing.places.broker(state.leader)
            done = await self._client.txn(
                when=[
                    mod_revision(place).equals(item.mod_revision),
                    # A leader that came up again since is not one: that must not change here.
                    mod_revision(leader).less(item.mod_revision),
                ],
                then=[Put(place, state_value(aimed))],
            )
            if done.succeeded:
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        raise ClusterError(f"{key[0]}/{key[1]} changes too often to be moved now; try again")

    async def set_leaving(self, node: int, *, is_leaving: bool) -> None:
        """Let a broker lead nothing, and get nothing new; or take that back."""
        key = self._viewing.places.leaving(node)
        if is_leaving:
            await self._client.put(key, b"")
        else:
            await self._client.delete(key)


class _Copying:
    """How much of what moves is copied, by the sizes that leaders and followers report."""

    def __init__(self, view: View, changes: Collection[Change]) -> None:
        self._sizes: dict[PartitionKey, float] = {}
        self._copies = {(c.topic, c.partition): len(c.copies) for c in changes}
        self._learn(view)
        self._began_at = monotonic()

    def _learn(self, view: View) -> None:
        for report in view.reports.values():
            self._sizes.update({k: row[-1] for k, row in report.loads.items() if k in self._copies})

    def measure(
        self, view: View, under_way: Collection[PartitionKey], waiting: Collection[PartitionKey]
    ) -> tuple[int, int, float | None]:
        """Bytes that are copied, bytes there are to copy, and seconds that this leaves."""
        self._learn(view)
        total = sum(self._sizes.get(key, 0) * count for key, count in self._copies.items())
        open_ = sum(self._sizes.get(key, 0) * self._copies[key] for key in {*under_way, *waiting})
        here = sum(
            min(size, self._sizes.get(key, size))
            for report in view.reports.values()
            for key, size in report.copying.items()
            if key in under_way
        )
        copied = max(total - open_ + here, 0)
        seconds = monotonic() - self._began_at
        left = (total - copied) * seconds / copied if copied else None
        return int(copied), int(total), left


@asynccontextmanager
async def operating(endpoints: str, cluster_id: str) -> AsyncIterator[Operator]:
    """An operator of one cluster; ClusterError when etcd does not answer, or knows no such one."""
    config = EtcdConfig(endpoints_of(endpoints), timeout_s=5.0)
    try:
        async with connect(config) as client:
            operator = Operator(client, cluster_id)
            view = await operator.look()
            if not view.members and not view.topics:
                raise ClusterError(
                    f"etcd at {endpoints} knows no cluster {cluster_id!r};"
                    " name it with --set cluster.cluster_id=…"
                )
            yield operator
    except EtcdError as error:
        raise ClusterError(f"etcd at {endpoints}: {error}") from error


def _moved_off(before: Assignment, nodes: Collection[Node], without: Collection[int]) -> Assignment:
    staying = [node for node in nodes if node.id not in without]
    carried = carried_by(before, {}, staying)
    after = {name: [list(one) for one in replicas] for name, replicas in before.items()}
    for name, partitions in after.items():
        for number, replicas in enumerate(partitions):
            for at, node in enumerate(replicas):
                if node in without:
                    fit = [one for one in carried if one not in replicas]
                    if not fit:
                        raise NotEnoughBrokers(len(replicas), len(staying))
                    replicas[at] = min(fit, key=lambda one: (carried[one], one))
                    carried[replicas[at]] += 1
            after[name][number] = replicas
    return {name: tuple(map(tuple, replicas)) for name, replicas in after.items()}


def _replication(replicas: tuple[Replicas, ...]) -> int:
    return max(map(len, replicas))


def _evened(before: Assignment, loads: Loads, nodes: list[Node]) -> Assignment:
    after = {name: [list(one) for one in replicas] for name, replicas in before.items()}
    for move in rebalanced(before, loads, nodes):
        place = after[move.topic][move.partition]
        place[place.index(move.source)] = move.target
    return {name: tuple(map(tuple, replicas)) for name, replicas in after.items()}
