"""Topics in etcd: made, grown, changed and deleted, each by transactions that compare.

A topic is there when its own key is: its partitions are put before that, or with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

from nexus.cluster.assignment.port import Node, Wanted
from nexus.cluster.choosing import STRATEGY, assignment_of, strategy_for
from nexus.cluster.errors import CannotAgree, NotEnoughBrokers
from nexus.cluster.etcd.keys import Places, state_value, topic_of, topic_value
from nexus.cluster.partition_state import first_state
from nexus.cluster.port import NewTopic, TopicInfo, View
from nexus.etcd import (
    Ambiguous,
    Client,
    Compare,
    Delete,
    Keys,
    KeyValue,
    Put,
    absent,
    mod_revision,
)
from nexus.wire.errors import (
    InvalidReplicationFactor,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

_PUTS: Final = 100  # in one transaction; servers take 128 unless told otherwise
_ATTEMPTS: Final = 5


class TopicKeys:
    """The topics of one cluster."""

    def __init__(self, client: Client, places: Places, view: View, strategy: str) -> None:
        self._client = client
        self._places = places
        self._view = view
        self._strategy = strategy

    async def create(self, wanted: NewTopic) -> TopicInfo:
        assignment = wanted.assignment or self._assigned(
            Wanted(wanted.name, wanted.partitions, wanted.replication), wanted.configs
        )
        info = TopicInfo(wanted.name, uuid4(), wanted.partitions, dict(wanted.configs))
        key = self._places.topic(wanted.name)
        puts = [*self._states(wanted.name, 0, assignment), Put(key, topic_value(info))]
        if not await self._put_all(absent(key), puts):
            found = await self._client.get(key)
            if found is None or found.value != puts[-1].value:  # else an answer was lost
                raise TopicAlreadyExists(f"topic {wanted.name} already exists")
        return info

    async def delete(self, name: str) -> None:
        key = self._places.topic(name)
        partitions = Keys.prefix(self._places.partitions(name))
        await self._client.txn(then=[Delete(partitions), Delete(Keys(key))])

    async def grow(self, name: str, count: int, assignment: tuple[tuple[int, ...], ...]) -> None:
        item, info = await self._found(name)
        first = info.partitions
        if count <= first:
            return
        replicas = (
            assignment
            or self._assigned(Wanted(name, count, self._replication(name)), info.configs)[first:]
        )
        key = self._places.topic(name)
        grown = Put(key, topic_value(info._replace(partitions=count)))
        when = mod_revision(key).equals(item.mod_revision)
        if not await self._put_all(when, [*self._states(name, first, replicas), grown]):
            raise CannotAgree(f"topic {name} was changed meanwhile")

    async def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        for _ in range(_ATTEMPTS):
            item, info = await self._found(name)
            changed = Put(item.key, topic_value(info._replace(configs=dict(configs))))
            when = mod_revision(item.key).equals(item.mod_revision)
            if await self._put_all(when, [changed]):
                return
        raise CannotAgree(f"topic {name} is being changed by others")

    async def _put_all(self, when: Compare, puts: Sequence[Put]) -> bool:
        """Put them all, the last one last; false when the compare does not hold."""
        for first in range(0, len(puts), _PUTS):
            some = puts[first : first + _PUTS]
            try:
                done = await self._client.txn(when=[when], then=some)
            except Ambiguous:
                # It is compared with what the last put changes: it cannot happen twice.
                done = await self._client.txn(when=[when], then=some)
            if not done.succeeded:
                return False
        return True

    def _states(self, name: str, first: int, assignment: Sequence[tuple[int, ...]]) -> list[Put]:
        live = self._view.members
        return [
            Put(self._places.partition((name, number)), state_value(first_state(replicas, live)))
            for number, replicas in enumerate(assignment, first)
        ]

    def _assigned(self, wanted: Wanted, configs: Mapping[str, str]) -> tuple[tuple[int, ...], ...]:
        members, leaving = self._view.members, self._view.leaving
        nodes = [Node(id_, members[id_].rack) for id_ in sorted(members)]
        fit = [node for node in nodes if node.id not in leaving]
        if len(fit) < wanted.replication:
            fit = nodes
        if len(fit) < wanted.replication:
            # One that is away gets its replicas when it is back: a restart keeps nobody waiting.
            away = sorted(self._view.known() - set(members))
            fit = nodes + [Node(id_) for id_ in away[: wanted.replication - len(nodes)]]
        try:
            name = configs.get(STRATEGY, self._strategy)
            strategy = strategy_for(name, assignment_of(self._view), self._view.loads)
            return strategy.assign(wanted, fit)
        except NotEnoughBrokers as error:
            raise InvalidReplicationFactor(str(error)) from error

    def _replication(self, name: str) -> int:
        state = self._view.state(name, 0)
        return 1 if state is None else len(state.target or state.replicas)

    async def _found(self, name: str) -> tuple[KeyValue, TopicInfo]:
        item = await self._client.get(self._places.topic(name))
        if item is None:
            raise UnknownTopicOrPartition(f"there is no topic {name!r}")
        return item, topic_of(name, item)
