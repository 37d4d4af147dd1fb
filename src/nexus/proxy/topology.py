"""What the proxy knows of the cluster: brokers, topics, who owns each partition.

Brokers are asked at every health interval, and at once when one of them says that it is not the
owner. Whoever asks while others ask shares their answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from math import inf
from time import monotonic
from typing import Any, Final, NamedTuple
from uuid import UUID

from nexus.cluster.assignment.port import Node, Wanted
from nexus.cluster.assignment.ring import RingStrategy
from nexus.observe.logs import get_logger
from nexus.proxy.broker import Address, Broker
from nexus.proxy.errors import BrokerAway, NoBroker
from nexus.wire.apis import ApiKey
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.metadata import MetadataRequest

ASK_SECONDS: Final = 2.0
ASK_AGAIN_SECONDS: Final = 0.05  # the least between two questions
METADATA_VERSION: Final = 12
NOBODY: Final = -1

log = get_logger(__name__)


class Topic(NamedTuple):
    """A topic and who leads each of its partitions; NOBODY where nobody does."""

    name: str
    id: UUID
    leaders: tuple[int, ...]
    replicas: tuple[tuple[int, ...], ...]
    is_internal: bool = False


class Topology:
    """The brokers by id, and the topics by name."""

    def __init__(
        self,
        bootstrap: tuple[Address, ...],
        connect_timeout_s: float,
        *,
        is_static: bool = False,
        virtual_nodes: int = 150,
    ) -> None:
        self.is_static = is_static
        self.virtual_nodes = virtual_nodes
        self.brokers: dict[int, Broker] = {}
        self.topics: Mapping[str, Topic] = {}
        self.controller = NOBODY
        self.cluster_id = ""
        self.moves = 0
        self._connect_timeout_s = connect_timeout_s
        # Asked until the brokers have told who they are, and when none of those answers.
        self._first = [self._broker(f"{host}:{port}", (host, port)) for host, port in bootstrap]
        self._asking: asyncio.Task[None] | None = None
        self._asked_at = -inf
        self._turn = 0
        self._is_ring_wrong = False

    def all_brokers(self) -> list[Broker]:
        """Those that are known by id, or the first ones while none is."""
        return list(self.brokers.values()) or self._first

    def owner(self, topic: str, partition: int) -> Broker | None:
        """The broker that takes a partition's messages; None while nobody does."""
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.leaders):
            return None
        return self.brokers.get(found.leaders[partition])

    def is_up(self, topic: str, partition: int) -> bool:
        broker = self.owner(topic, partition)
        return broker is not None and broker.is_up

    @property
    def any_up(self) -> bool:
        """Whether there is a broker worth asking."""
        return any(broker.is_up for broker in self.all_brokers())

    async def refresh(self) -> None:
        """Ask a broker how things are; NoBroker when none answers."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._refresh())
            self._asking.add_done_callback(self._asked)
        await asyncio.shield(self._asking)

    async def check_health(self) -> None:
        """Ask every broker for a sign of life, over connections of their own."""
        await asyncio.gather(*(self._check(broker) for broker in self.all_brokers()))

    def close(self) -> None:
        """Hang up everywhere; safe to call twice."""
        if self._asking is not None:
            self._asking.cancel()
        for broker in (*self._first, *self.brokers.values()):
            broker.close()

    # Inside -----------------------------------------------------------------------------------

    def _broker(self, name: str, address: Address) -> Broker:
        return Broker(name, address, self._connect_timeout_s)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()  # those who wait are told; there may be none

    async def _refresh(self) -> None:
        await asyncio.sleep(self._asked_at + ASK_AGAIN_SECONDS - monotonic())
        self._asked_at = monotonic()
        why = ""
        for broker in self._candidates():
            try:
                self._take(await self._ask(broker))
            except BrokerAway as error:
                why = f"{broker.name}: {error}"
            else:
                return
        raise NoBroker(f"no broker answers; the last one asked: {why}")

    async def _ask(self, broker: Broker) -> Any:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return await broker.poll(self, ApiKey.METADATA, METADATA_VERSION, request, ASK_SECONDS)

    async def _check(self, broker: Broker) -> None:
        try:
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            await broker.poll("health", ApiKey.METADATA, METADATA_VERSION, request, ASK_SECONDS)
        except BrokerAway:
            broker.hang_up()

    def _candidates(self) -> Iterator[Broker]:
        """Every broker once, those that seem well first, each time from another one on."""
        known = self.all_brokers()
        self._turn += 1
        at = self._turn % len(known)
        known = sorted(known[at:] + known[:at], key=lambda broker: not broker.is_up)
        yield from known
        yield from (first for first in self._first if first not in known)

    def _take(self, answer: Any) -> None:
        seen = {node.node_id: (node.host, node.port) for node in answer.brokers}
        for gone in self.brokers.keys() - seen.keys():
            log.warning("a broker left", broker=gone)
            self.brokers.pop(gone).close()
        for node, address in seen.items():
            known = self.brokers.get(node)
            if known is None or known.address != address:
                log.info("found a broker", broker=node, address="{}:{}".format(*address))
                if known is not None:
                    known.close()
                self.brokers[node] = self._broker(str(node), address)
        self.controller, self.cluster_id = answer.controller_id, answer.cluster_id or ""
        topics = {t.name: _topic(t) for t in answer.topics if t.error_code == ErrorCode.NONE}
        self._note_moves(topics)
        self.topics = topics

    def _note_moves(self, topics: Mapping[str, Topic]) -> None:
        for name, topic in topics.items():
            if self.is_static:
                self._check_ring(topic)
            before = self.topics.get(name)
            if before is None:
                continue
            for number, (old, new) in enumerate(zip(before.leaders, topic.leaders, strict=False)):
                if old != new:
                    self.moves += 1
                    log.info("a partition moved", topic=name, partition=number, old=old, new=new)

    def _check_ring(self, topic: Topic) -> None:
        """A broker that counts otherwise would refuse what we send by our own reckoning."""
        ours = self.ring_owners(topic.name, len(topic.leaders))
        if ours != topic.leaders and not self._is_ring_wrong:
            self._is_ring_wrong = True
            log.warning("the brokers' ring is another one; theirs is followed", topic=topic.name)

    def ring_owners(self, topic: str, partitions: int) -> tuple[int, ...]:
        """Who owns each partition by the function that static brokers use too."""
        strategy = RingStrategy(self.virtual_nodes, slack=inf)
        nodes = [Node(node) for node in sorted(self.brokers)]
        return tuple(owners[0] for owners in strategy.assign(Wanted(topic, partitions), nodes))


def _topic(told: Any) -> Topic:
    parts = sorted(told.partitions, key=lambda part: part.partition_index)
    return Topic(
        told.name,
        told.topic_id,
        tuple(part.leader_id for part in parts),
        tuple(tuple(part.replica_nodes) for part in parts),
        told.is_internal,
    )
