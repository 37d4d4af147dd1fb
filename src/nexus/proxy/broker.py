"""One broker as the proxy sees it: a shared connection, its health, and what it has been asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from nexus.observe.logs import get_logger
from nexus.observe.metrics import Histogram
from nexus.proxy.breaker import Breaker
from nexus.proxy.errors import BrokerAway
from nexus.proxy.link import Link, connect
from nexus.wire.apis import ApiKey

CLIENT_ID: Final = "nexus-proxy"
LONG_POLLS_MAX: Final = 1_000

log = get_logger(__name__)
Address = tuple[str, int]


class Broker:
    """Connects when it is first asked, and again after a failure."""

    def __init__(self, name: str, address: Address, connect_timeout_s: float) -> None:
        self.name = name
        self.address = address
        self.breaker = Breaker()
        self.requests = 0
        self.errors = 0
        self.latency = Histogram()
        self.problem = ""
        self._connect_timeout_s = connect_timeout_s
        self._link: Link | None = None
        self._connecting: asyncio.Task[Link] | None = None
        self._polls: dict[object, Link] = {}  # a long poll holds up all that comes after it

    @property
    def is_up(self) -> bool:
        """Whether it may be asked now, as far as is known."""
        return self.breaker.state(monotonic()) != "open"

    @property
    def is_well(self) -> bool:
        """Whether it answered last, as far as is known."""
        return self.breaker.state(monotonic()) == "closed"

    @property
    def in_flight(self) -> int:
        return self._link.in_flight if self._link is not None else 0

    async def ask(self, key: ApiKey, version: int, body: object, timeout_s: float) -> Any:
        """The answer to a request; BrokerAway where there is none."""
        return await self._counted(self.link, key, version, body, timeout_s)

    async def poll(
        self, who: object, key: ApiKey, version: int, body: object, timeout_s: float
    ) -> Any:
        """The answer to a request that may take its time, over a connection of the asker's own."""

        async def own() -> Link:
            link = self._polls.get(who)
            if link is None or not link.is_open:
                if len(self._polls) >= LONG_POLLS_MAX:
                    raise BrokerAway(f"{LONG_POLLS_MAX} long polls are under way")
                link = self._polls[who] = await self._connect()
            return link

        return await self._counted(own, key, version, body, timeout_s)

    def end_poll(self, who: object) -> None:
        """Give up the asker's own connection."""
        link = self._polls.pop(who, None)
        if link is not None:
            link.close()

    async def link(self) -> Link:
        """The shared connection."""
        if self._link is not None and self._link.is_open:
            return self._link
        if not self.breaker.admits(monotonic()):
            raise BrokerAway(f"broker {self.name} is left alone for now: {self.problem}")
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
        task = self._connecting
        try:
            self._link = await asyncio.shield(task)
        finally:
            if task.done() and self._connecting is task:
                self._connecting = None
        return self._link

    def hang_up(self) -> None:
        """Give up the shared connection: whoever waits on it is told, and may ask elsewhere."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def close(self) -> None:
        """Hang up; safe to call twice."""
        if self._connecting is not None:
            self._connecting.cancel()
        self.hang_up()
        for link in self._polls.values():
            link.close()
        self._polls.clear()

    def failed(self, why: str) -> None:
        """Note that it did not answer."""
        self.errors += 1
        self.problem = why
        if self.breaker.failed(monotonic()):
            log.warning("a broker is left alone", broker=self.name, why=why)

    def succeeded(self, seconds: float) -> None:
        """Note that it answered."""
        self.latency.observe(seconds)
        self.problem = ""
        if self.breaker.succeeded():
            log.info("a broker is back", broker=self.name)

    async def _connect(self) -> Link:
        try:
            return await connect(self.address, CLIENT_ID, self._connect_timeout_s)
        except BrokerAway as error:
            self.failed(str(error))
            raise

    async def _counted(
        self,
        link_of: Callable[[], Any],
        key: ApiKey,
        version: int,
        body: object,
        timeout_s: float,
    ) -> Any:
        link: Link = await link_of()
        self.requests += 1
        began = monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                answer = await link.ask(key, version, body)
        except TimeoutError:
            # Answers come in order: behind one that does not come, none does.
            link.close()
            self.failed(f"no answer within {timeout_s:g} s")
            raise BrokerAway(f"broker {self.name} does not answer", in_doubt=True) from None
        except BrokerAway as error:
            self.failed(str(error))
            raise
        self.succeeded(monotonic() - began)
        return answer
