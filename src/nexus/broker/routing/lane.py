"""What one client's connection has under way at other brokers.

Each client has connections of its own to the owners of what it asks for. So its requests arrive
there in the order in which it sent them, one client never waits behind another, and what it no
longer wants ends when its connection does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from functools import partial
from typing import TYPE_CHECKING, Any

from nexus.broker.connection import Connection
from nexus.broker.dispatch import Handler, Request, settled
from nexus.broker.peer import forwarding_id
from nexus.broker.routing.channel import Channel, Unreachable

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


class Turns:
    """Keeps the order of a client's requests when some of them must be sent again."""

    def __init__(self) -> None:
        self._open: dict[int, asyncio.Future[None]] = {}
        self._repeated: set[int] = set()
        self._last = 0

    @property
    def are_held(self) -> bool:
        """Whether what comes now must wait, since something before it is sent again."""
        return bool(self._repeated)

    def take(self) -> int:
        """A place in the order."""
        self._last += 1
        self._open[self._last] = asyncio.get_running_loop().create_future()
        return self._last

    async def come(self, turn: int) -> None:
        """Wait until all that came before is answered; what comes after waits from now on."""
        self._repeated.add(turn)
        while (first := next(iter(self._open))) != turn:
            await self._open[first]

    def end(self, turn: int) -> None:
        """It is answered."""
        self._repeated.discard(turn)
        self._open.pop(turn).set_result(None)


class Lane:
    """One client's connections to other brokers."""

    def __init__(self, broker: Broker, scratch: memoryview) -> None:
        self.broker = broker
        self._scratch = scratch
        self._channels: dict[int, Channel] = {}
        self._opened: set[Channel] = set()
        self._owed = 0
        self._is_closed = False
        self.turns = Turns()

    def ask(self, owner: int, handler: Handler, request: Request, body: object) -> Any:
        """A future of the owner's answer; this broker's own part begins at once."""
        if owner == self.broker.settings.broker.id:
            answer = handler(self.broker, request, body)
            return asyncio.ensure_future(settled(answer))
        channel = self._channel(owner)
        client_id = forwarding_id(request.client_host, request.client_id)
        return channel.ask(request.api.key, request.version, client_id, body)

    def tell(self, owner: int, request: Request, body: object, size: int) -> None:
        """Send what is not answered; a client that is faster than the owner has to wait."""
        client_id = forwarding_id(request.client_host, request.client_id)
        channel = self._channel(owner)
        channel.tell(request.api.key, request.version, client_id, body)
        # Nothing else would tell the client that its messages are lost.
        channel.when_lost = request.connection.close
        if channel.is_full:
            self._owed += size
            request.connection.forwarded_bytes += size
            channel.when_drained = partial(self._drained, request.connection)

    def open(self, owner: int) -> Channel:
        """A new connection to a broker; Unreachable where it is not known to live."""
        member = self.broker.cluster.view.members.get(owner)
        if member is None or self._is_closed:
            raise Unreachable(f"broker {owner} is away")
        self._opened = {channel for channel in self._opened if not channel.is_closed}
        channel = Channel((member.host, member.port), self._scratch)
        self._opened.add(channel)
        return channel

    def hang_up_all_but(self, live: Container[tuple[str, int]]) -> None:
        """Wait no more for brokers that are at none of these addresses."""
        for channel in self._opened:
            if channel.address not in live:
                channel.close()

    def close(self) -> None:
        """The client is gone."""
        self._is_closed = True
        for channel in self._opened:
            channel.finish()

    def _drained(self, connection: Connection) -> None:
        connection.forwarded_bytes -= self._owed
        self._owed = 0
        connection.resume()

    def _channel(self, owner: int) -> Channel:
        known = self._channels.get(owner)
        if known is None or known.is_closed:
            known = self._channels[owner] = self.open(owner)
        return known
