"""The other brokers that this one asks on behalf of queues: one connection to each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from nexus.broker.peer import Peer
from nexus.wire.apis import ApiKey
from nexus.wire.errors import ErrorCode, ProtocolError

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

ANSWER_SECONDS: Final = 10.0


class PeerRefused(ProtocolError):
    """Raised when another broker cannot do as asked now."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class Peers:
    """The way to every broker; requests to one of them go one after the other."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._peers: dict[int, Peer] = {}
        self._locks: dict[int, asyncio.Lock] = {}

    def leader_of(self, topic: str, index: int) -> int:
        """Who leads a partition; -1 for nobody."""
        state = self._broker.cluster.view.state(topic, index)
        return -1 if state is None else state.leader

    def is_me(self, node: int) -> bool:
        """Whether nobody needs to be asked."""
        return node == self._broker.settings.broker.id

    async def ask(self, node: int, key: ApiKey, version: int, request: object) -> Any:
        """A broker's answer, or PeerRefused."""
        async with self._locks.setdefault(node, asyncio.Lock()):
            peer = self._peer(node)
            try:
                return await peer.ask(key, version, request, ANSWER_SECONDS)
            except (OSError, TimeoutError) as error:
                raise PeerRefused(f"broker {node} does not answer: {error}") from error

    def close(self) -> None:
        """Hang up; safe to call twice."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def _peer(self, node: int) -> Peer:
        member = self._broker.cluster.view.members.get(node)
        if member is None:
            raise PeerRefused(f"broker {node} is not there")
        peer = self._peers.get(node)
        if peer is None or peer.address != (member.host, member.port):
            peer = self._peers[node] = Peer(member.host, member.port, "sharing")
        return peer
