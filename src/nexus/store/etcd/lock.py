"""The lock that makes one writer a store in etcd: an election, whose token every write compares.

The lease behind it may be lost while etcd is away. Then the lock is won back, with a new token, as
long as nobody else had it in between; if somebody had, it is lost for good.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Final, NamedTuple

from nexus.etcd import (
    Ambiguous,
    Client,
    Compare,
    EtcdError,
    Fence,
    Get,
    Keys,
    KeyValue,
    Lease,
    LeaseLost,
    LeaseNotFound,
    Put,
    absent,
    release,
    value,
)
from nexus.etcd.blocking import BlockingClient
from nexus.lake.errors import StoreBusy, StoreOut
from nexus.store.etcd.faults import as_store_errors
from nexus.store.etcd.url import EtcdStoreUrl

LEASE_S: Final = 10
_AGAIN_S: Final = 1.0
_LOOK_S: Final = 3.0


class Holder(NamedTuple):
    """Who has the lock."""

    name: str
    id: str

    def to_json(self) -> bytes:
        return json.dumps({"writer": self.name, "id": self.id}).encode()


class EtcdWriterLock:
    """The lock of one store, for one would-be writer; with a client that others may use too."""

    def __init__(self, store: EtcdStoreUrl, owner: str, lease_s: int = LEASE_S) -> None:
        self.store = store
        self._me = Holder(owner, secrets.token_hex(8)).to_json()
        self._lease_s = lease_s
        self._key, self._last = store.layout.meta("writer"), store.layout.meta("last-writer")
        self._client: BlockingClient | None = None
        self._lease: Lease | None = None
        self._held = AsyncExitStack()
        self._fence: Fence | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._is_lost = False

    @property
    def client(self) -> BlockingClient:
        """A client of the store; opened when it is first asked for, and closed by `release`."""
        if self._client is None:
            self._client = BlockingClient(self.store.address.config())
        return self._client

    @property
    def fence(self) -> Fence:
        """The right to write, as it is now; StoreOut while it is looked for anew."""
        fence = self._fence
        if fence is None:
            raise StoreOut(f"store {self.store}: the right to write was lost; it is asked for anew")
        return fence

    def acquire(self, wait: Callable[[str], None] | None = None) -> Fence:
        """The right to write. While another has it, `wait` is called with its name.

        `wait` sleeps as long as it likes and ends the waiting by raising; without it a store
        that is held is StoreBusy at once. A store that does not answer is waited for likewise.
        """
        while True:
            try:
                with as_store_errors(self.store):
                    holder = self.client.run(self._acquire)
            except StoreOut:
                if wait is None:
                    raise
                wait("etcd does not answer; nobody")
                continue
            if holder is None:
                return self.fence
            if wait is None:
                raise StoreBusy(
                    f"store {self.store}: {holder} writes to it; one writer a store: stop that"
                    " one, or give this one another store or prefix"
                )
            wait(holder)

    def lost(self) -> bool:
        """Whether another has taken over: nothing more can be written."""
        return self._is_lost

    def release(self) -> None:
        """Let the next one have the store; safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(EtcdError):  # the lease ends it otherwise
                client.run(self._let_go)
            client.close()

    async def _acquire(self, client: Client) -> str | None:
        """Take the lock and keep it; or who has it."""
        found = await self._try(client, [])
        if isinstance(found, Fence):
            self._fence = found
            self._keeping = asyncio.ensure_future(self._keep(client))
            return None
        return found

    async def _keep(self, client: Client) -> None:
        """Win the lock back whenever its lease was lost, or somebody removed its key."""
        while not self._is_lost:
            assert self._lease is not None
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._lease.wait_lost()
            if await self._is_ours(client):
                continue
            self._fence = None
            while self._fence is None and not self._is_lost:
                with suppress(EtcdError):
                    await self._win_back(client)
                if self._fence is None:
                    await asyncio.sleep(_AGAIN_S)

    async def _is_ours(self, client: Client) -> bool:
        """Whether the lock is held as far as is known: what does not answer says nothing."""
        if self._lease is None or self._lease.lost():
            return False
        with suppress(EtcdError):
            found = await client.get(self._key)
            return found is not None and found.lease == self._lease.id
        return True

    async def _win_back(self, client: Client) -> None:
        found = await self._try(client, [value(self._last).equals(self._me)])
        if isinstance(found, Fence):
            self._fence = found
        else:
            last = await client.get(self._last)
            self._is_lost = last is None or last.value != self._me

    async def _try(self, client: Client, when: list[Compare]) -> Fence | str:
        """The lock, or the name of who has it; may be repeated as it stands."""
        lease = await self._lease_of(client)
        try:
            done = await client.txn(
                when=[absent(self._key), *when],
                then=[Put(self._key, self._me, lease.id), Put(self._last, self._me)],
                otherwise=[Get(Keys(self._key))],
            )
        except Ambiguous:
            return await self._try(client, when)
        except LeaseNotFound as gone:
            lease.drop()
            raise LeaseLost(str(gone)) from gone
        if done.succeeded:
            return Fence(self._key, done.revision)
        holder = done.got(0).first
        if holder is not None and holder.lease == lease.id:  # an earlier try, whose answer was lost
            return Fence(self._key, holder.create_revision)
        return _name_of(holder)

    async def _lease_of(self, client: Client) -> Lease:
        if self._lease is None or self._lease.lost():
            await self._held.aclose()
            self._lease = await self._held.enter_async_context(client.leases.hold(self._lease_s))
        return self._lease

    async def _let_go(self, client: Client) -> None:
        fence, self._fence = self._fence, None
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        try:
            if fence is not None:
                await release(client, fence)
        finally:
            await self._held.aclose()


def _name_of(holder: KeyValue | None) -> str:
    try:
        return str(json.loads(holder.value)["writer"]) if holder is not None else "another"
    except (ValueError, KeyError, TypeError):
        return "another"
