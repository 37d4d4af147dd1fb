"""Finds topics, and makes those that are missing."""

from __future__ import annotations

import re
from time import monotonic
from typing import Final

from nexus.proxy.errors import BrokerAway, Conflict, NoBroker, NotWritten
from nexus.proxy.refusals import refusal
from nexus.proxy.topology import Topic, Topology
from nexus.web.problems import BadParameter, NotFound
from nexus.wire.apis import ApiKey
from nexus.wire.errors import RETRIABLE, ErrorCode
from nexus.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

CREATE_VERSION: Final = 7
NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Topics:
    """The topics of the cluster, by name."""

    def __init__(self, topology: Topology, partitions: int) -> None:
        self._topology = topology
        self._partitions = partitions

    async def find(self, name: str, deadline: float) -> Topic:
        """A topic that is there; NotFound."""
        check_name(name)
        known = self._topology.topics.get(name)
        while known is None or not known.leaders:
            await self._topology.refresh()
            known = self._topology.topics.get(name)
            if known is None:
                raise NotFound(f"there is no topic {name}")
            if monotonic() >= deadline:
                raise NotWritten(f"topic {name} has no partitions yet")
        return known

    async def find_or_make(self, name: str, deadline: float) -> Topic:
        """A topic that is there now, if need be because it was just made."""
        known = self._topology.topics.get(name)
        if known is not None:
            return known
        try:
            return await self.find(name, deadline)
        except NotFound:
            await self.make(name, self._partitions, {}, deadline, may_be_there=True)
        return await self._made(name, deadline)

    async def make(
        self,
        name: str,
        partitions: int | None,
        configs: dict[str, str],
        deadline: float,
        *,
        replication: int = -1,
        may_be_there: bool = False,
    ) -> Topic:
        """Make a topic; Conflict when it is there already."""
        check_name(name)
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions or self._partitions,
            replication_factor=replication,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        while True:
            code, said = await self._ask(topic, deadline)
            if code == ErrorCode.NONE or (may_be_there and code == ErrorCode.TOPIC_ALREADY_EXISTS):
                return await self._made(name, deadline)
            if code == ErrorCode.TOPIC_ALREADY_EXISTS:
                raise Conflict(f"topic {name} is there already")
            if code not in RETRIABLE or monotonic() >= deadline:
                raise refusal(code, said)
            await self._topology.refresh()

    async def _ask(self, topic: CreatableTopic, deadline: float) -> tuple[int, str | None]:
        topology = self._topology
        first = topology.brokers.get(topology.controller)
        brokers = [broker for broker in topology.all_brokers() if broker is not first]
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        timeout_s = max(deadline - monotonic(), 0.01)
        for broker in ([first] if first else []) + brokers:
            try:
                answer = await broker.ask(ApiKey.CREATE_TOPICS, CREATE_VERSION, request, timeout_s)
            except BrokerAway:
                continue
            return answer.topics[0].error_code, answer.topics[0].error_message
        raise NoBroker("no broker answers, so the topic cannot be made")

    async def _made(self, name: str, deadline: float) -> Topic:
        while True:
            await self._topology.refresh()
            known = self._topology.topics.get(name)
            if known is not None and known.leaders:
                return known
            if monotonic() >= deadline:
                raise NotWritten(f"topic {name} was made, but no broker tells of it yet")


def check_name(name: str) -> None:
    if not NAME.fullmatch(name) or name in (".", ".."):
        raise BadParameter.of(
            "topic", "expected 1 to 249 letters, digits, dots, dashes, underscores"
        )
