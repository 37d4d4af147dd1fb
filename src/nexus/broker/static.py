"""A fixed list of peers: each partition on one of them, by the same function everywhere.

Nothing is replicated and nobody is elected. A broker tells its peers of topics that are made,
changed or deleted, and asks them for what it missed when it starts. Whoever hears of something new
tells the others too, so that it does not matter who was told first. The list may change while the
broker runs: then partitions have other owners, and what they held before stays with the old ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from math import inf
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from nexus.broker.peer import Peer
from nexus.broker.topic_config import ConfigSource
from nexus.cluster.assignment.modulo import Modulo
from nexus.cluster.assignment.port import Node, Strategy, Wanted
from nexus.cluster.assignment.ring import RingStrategy
from nexus.cluster.controlling import PartitionKey
from nexus.cluster.errors import CannotAgree
from nexus.cluster.partition_state import PartitionState
from nexus.cluster.port import Listener, Member, NewTopic, Report, TopicInfo, View
from nexus.observe.logs import get_logger
from nexus.settings import BrokerSettings
from nexus.settings.sections import parse_peers
from nexus.wire.apis import ApiKey
from nexus.wire.errors import (
    ErrorCode,
    ProtocolError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from nexus.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from nexus.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from nexus.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from nexus.wire.messages.delete_topics import DeleteTopicsRequest
from nexus.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from nexus.wire.messages.metadata import MetadataRequest

log = get_logger(__name__)

ANSWER_SECONDS: Final = 5.0
ASK_PEERS_SECONDS: Final = 5.0
FIRST_VERSION: Final = 1
# Each broker hands out producer ids of its own.
IDS_OF_A_BROKER: Final = 1 << 40
_TOPIC: Final = 2

Reserve = Callable[[int], Awaitable[range]]


class Static:
    """One of the peers."""

    def __init__(
        self, settings: BrokerSettings, known: Collection[TopicInfo], reserve_ids: Reserve
    ) -> None:
        self._me = settings.broker.id
        self._cluster_id = settings.cluster.cluster_id
        self._reserve_ids = reserve_ids
        self._peers: Mapping[int, tuple[str, int]] = parse_peers(settings.cluster.peers)
        self._nodes = [Node(node) for node in sorted(self._peers)]
        # Not by shares of a topic: a topic that grows must leave its partitions where they are.
        is_modulo = settings.cluster.partition_strategy == "modulo"
        self._strategy: Strategy = Modulo() if is_modulo else RingStrategy(slack=inf)
        self.view = View(
            members={node: Member(node, *address) for node, address in self._peers.items()},
            controller=self._nodes[0].id,
            is_fixed=True,
        )
        for info in known:
            if info.topic_id == self._info(info.name, 0, {}).topic_id:
                self._note(info)
        self._listener: Listener | None = None
        self._task: asyncio.Task[None] | None = None
        self._look_soon = asyncio.Event()

    async def start(self, me: Member, listener: Listener) -> None:
        self.view.members[me.id] = me
        self._listener = listener
        listener.registered(FIRST_VERSION - 1)
        await self._catch_up()
        self._task = asyncio.ensure_future(self._keep_up())

    async def leave(self) -> None:
        """Nobody else could lead."""

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def set_peers(self, peers: Mapping[int, tuple[str, int]]) -> None:
        """Serve what is this broker's by another list. Logs stay where they are."""
        if peers == self._peers or self._me not in peers:
            return
        log.warning("the list of peers changed", peers=sorted(peers), before=sorted(self._peers))
        own = self.view.members[self._me]
        self._peers = dict(peers)
        self._nodes = [Node(node) for node in sorted(peers)]
        self.view.members.clear()
        self.view.members.update({n: Member(n, *address) for n, address in peers.items()})
        self.view.members[self._me] = own
        self.view.controller = self._nodes[0].id
        for info in list(self.view.topics.values()):
            self._note(info)
            self._tell(info.name)
        self._look_soon.set()

    # Commands ---------------------------------------------------------------------------------

    async def create_topic(self, wanted: NewTopic) -> TopicInfo:
        if wanted.name in self.view.topics:
            raise TopicAlreadyExists(f"topic {wanted.name} already exists")
        info = self._info(wanted.name, wanted.partitions, wanted.configs)
        self._note(info)
        self._tell(info.name)
        configs = [CreatableTopicConfig(name=n, value=v) for n, v in info.configs.items()]
        topic = CreatableTopic(
            name=info.name, num_partitions=info.partitions, replication_factor=-1, configs=configs
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        await self._ask_all(ApiKey.CREATE_TOPICS, 7, request)
        return info

    async def delete_topic(self, name: str) -> None:
        await self._all_there()
        self._forget(name)
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
        await self._ask_all(ApiKey.DELETE_TOPICS, 5, request)

    async def add_partitions(
        self, name: str, count: int, assignment: tuple[tuple[int, ...], ...] = ()
    ) -> None:
        self._note(self.view.topics[name]._replace(partitions=count))
        self._tell(name)
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=5000)
        await self._ask_all(ApiKey.CREATE_PARTITIONS, 3, request)

    async def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        before = self.view.topics[name]
        if before.configs == configs:
            return
        self._note(before._replace(configs=dict(configs)))
        self._tell(name)
        values = [AlterableConfig(name=n, value=v) for n, v in configs.items()]
        resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=values)
        await self._ask_all(ApiKey.ALTER_CONFIGS, 2, AlterConfigsRequest(resources=[resource]))

    async def propose(self, key: PartitionKey, state: PartitionState) -> bool:
        return False

    async def reserve_producer_ids(self, count: int) -> range:
        first = self._me * IDS_OF_A_BROKER
        own = await self._reserve_ids(count)
        return range(first + own.start, first + own.stop)

    async def report(self, report: Report) -> None:
        """Nobody else plans."""

    # Inside -----------------------------------------------------------------------------------

    def _info(self, name: str, partitions: int, configs: Mapping[str, str]) -> TopicInfo:
        # The same id at every peer, without having to agree on one.
        topic_id = uuid5(NAMESPACE_URL, f"nexus:{self._cluster_id}/{name}")
        return TopicInfo(name, topic_id, partitions, dict(configs))

    def _note(self, info: TopicInfo) -> None:
        self.view.topics[info.name] = info
        self.view.deleted.discard(info.name)
        owners = self._strategy.assign(Wanted(info.name, info.partitions), self._nodes)
        for number, owner in enumerate(owners):
            state = PartitionState(owner, owner[0], 0, owner, version=FIRST_VERSION)
            self.view.partitions[info.name, number] = state

    def _forget(self, name: str) -> None:
        info = self.view.topics.pop(name, None)
        if info is None:
            raise UnknownTopicOrPartition(f"there is no topic {name!r}")
        self.view.deleted.add(name)
        for number in range(info.partitions):
            self.view.partitions.pop((name, number), None)
        self._tell(name)

    def _tell(self, name: str) -> None:
        if self._listener is not None:
            self._listener.changed(set(), {name})

    async def _ask_all(self, key: ApiKey, version: int, request: object) -> None:
        """Tell every peer; one that is away hears of it when it starts."""
        for node in self._others():
            try:
                await self._ask(node, key, version, request)
            except (OSError, TimeoutError, ProtocolError) as error:
                log.warning("a peer was not told", broker=node, api=key.name, why=str(error))

    async def _all_there(self) -> None:
        for node in self._others():
            try:
                await self._ask(node, ApiKey.METADATA, 9, MetadataRequest(topics=[]))
            except (OSError, TimeoutError) as error:
                raise CannotAgree(
                    f"broker {node} is away and would bring the topic back"
                ) from error

    def _others(self) -> list[int]:
        return [node for node in self._peers if node != self._me]

    async def _ask(self, node: int, key: ApiKey, version: int, request: object) -> Any:
        peer = Peer(*self._peers[node], f"nexus-broker-{self._me}")
        try:
            return await peer.ask(key, version, request, ANSWER_SECONDS)
        finally:
            peer.close()

    async def _keep_up(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_PEERS_SECONDS):
                    await self._look_soon.wait()
            self._look_soon.clear()
            await self._catch_up()

    async def _catch_up(self) -> None:
        """Learn of the topics that were made, or grew, while this broker was away."""
        for node in self._others():
            try:
                request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
                answer = await self._ask(node, ApiKey.METADATA, 9, request)
                for topic in answer.topics:
                    await self._take(node, topic.name, len(topic.partitions))
            except (OSError, TimeoutError, ProtocolError) as error:
                log.debug("a peer cannot be asked", broker=node, why=str(error))

    async def _take(self, node: int, name: str, partitions: int) -> None:
        known = self.view.topics.get(name)
        if name in self.view.deleted or (known is not None and known.partitions >= partitions):
            return
        wanted = DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=name, configuration_keys=None
        )
        request = DescribeConfigsRequest(resources=[wanted])
        answer = await self._ask(node, ApiKey.DESCRIBE_CONFIGS, 4, request)
        result = answer.results[0]
        if result.error_code == ErrorCode.NONE:
            own = {c.name: c.value for c in result.configs if c.config_source == ConfigSource.TOPIC}
            self._note(self._info(name, partitions, own))
            self._tell(name)
