"""Locks and leaders: a claim on one key, with the names that people look for.

The token of a lock or a leadership (its epoch) goes with every write that depends on it; see
`claims.fenced`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import NamedTuple

from nexus.etcd.claims import Fence, claim, release
from nexus.etcd.client import Client
from nexus.etcd.errors import EtcdError
from nexus.etcd.follow import follow
from nexus.etcd.keys import Keys
from nexus.etcd.lease import Lease
from nexus.etcd.results import KeyValue


class Leader(NamedTuple):
    """Who leads, as it called itself, and since which revision: its epoch."""

    value: bytes
    epoch: int


class Election:
    """One office, held by at most one candidate for each epoch."""

    def __init__(self, client: Client, key: bytes) -> None:
        self._client = client
        self.key = key

    async def campaign(self, value: bytes, lease: Lease) -> Fence:
        """Wait until elected. Ends with LeaseLost: then begin again with a new lease."""
        return await claim(self._client, self.key, value, lease)

    async def resign(self, fence: Fence) -> None:
        """Let another lead at once; safe to call twice."""
        await release(self._client, fence)

    async def leader(self) -> Leader | None:
        return _leader(await self._client.get(self.key))

    async def observe(self) -> AsyncGenerator[Leader | None, None]:
        """The leader now, and at every change; None while there is none."""
        last: Leader | None = None
        first = True
        async with aclosing(follow(self._client, Keys(self.key))) as views:
            async for view in views:
                now = _leader(view.items.get(self.key))
                if first or now != last:
                    yield now
                first, last = False, now


@asynccontextmanager
async def lock(
    client: Client, key: bytes, value: bytes = b"", *, ttl_s: int = 10
) -> AsyncIterator[Fence]:
    """Hold a lock for the block, under a lease of its own. Waits while another holds it."""
    async with client.leases.hold(ttl_s) as lease:
        fence = await claim(client, key, value, lease)
        try:
            yield fence
        finally:
            with suppress(EtcdError):  # the lease ends it otherwise
                await release(client, fence)


def _leader(item: KeyValue | None) -> Leader | None:
    return None if item is None else Leader(item.value, item.create_revision)
