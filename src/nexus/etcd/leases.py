"""Granting, renewing, holding and revoking leases: calls that may be repeated as they stand.

One that ends with Unavailable may have happened all the same. That does no harm: a lease that
nobody knows of ends by itself, and one that was to be revoked does too.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from nexus.etcd import schema
from nexus.etcd.caller import Caller
from nexus.etcd.errors import EtcdError, LeaseExists, LeaseNotFound, Unavailable
from nexus.etcd.keepalive import Keeper, Renewer
from nexus.etcd.lease import Lease, steady_clock

STALL_S = 10.0  # a loop that stands still for longer counts as hung


class LeaseInfo(NamedTuple):
    """What the server knows of a lease."""

    remaining_s: int
    granted_s: int
    keys: tuple[bytes, ...]


class Leases:
    """The lease calls of one client."""

    def __init__(self, caller: Caller, clock: Callable[[], float] = steady_clock) -> None:
        self._caller = caller
        self._clock = clock

    async def grant(self, ttl_s: int, *, margin_s: float = 0.0) -> Lease:
        """A new lease, which nobody renews. The server may give more time than asked for.

        The id is chosen here: an attempt whose answer was lost cannot leave a second lease behind.
        """
        lease_id = secrets.randbits(62) + 1
        sent_at = self._clock()
        try:
            answer = await self._caller.call(
                schema.GRANT, schema.GRANT.request(ttl=ttl_s, id=lease_id), repeatable=True
            )
        except LeaseExists:
            return await self._taken_up(lease_id, margin_s)
        return Lease(lease_id, answer.ttl, sent_at, margin_s=margin_s, clock=self._clock)

    async def renew(self, lease: Lease) -> None:
        """Renew once; LeaseNotFound when the server has it no more."""
        sent_at = self._clock()
        ttl_s = await self._renewal(lease.id)
        if ttl_s == 0:
            lease.drop()
            raise LeaseNotFound(f"lease {lease.id:x} has expired or was revoked")
        lease.renewed(sent_at, ttl_s)

    async def revoke(self, lease: Lease | int, timeout_s: float | None = None) -> None:
        """End a lease, and with it every key on it; one that has ended already is no error."""
        if isinstance(lease, Lease):
            lease.drop()
            lease = lease.id
        with suppress(LeaseNotFound):
            await self._caller.call(
                schema.REVOKE,
                schema.REVOKE.request(id=lease),
                repeatable=True,
                timeout_s=timeout_s,
            )

    async def look(self, lease_id: int, *, keys: bool = False) -> LeaseInfo:
        """What the server says of a lease; LeaseNotFound when it has none by this id."""
        request = schema.TIME_TO_LIVE.request(id=lease_id, keys=keys)
        answer = await self._caller.call(schema.TIME_TO_LIVE, request, repeatable=True)
        if answer.ttl < 0:
            raise LeaseNotFound(f"lease {lease_id:x} has expired or was revoked")
        return LeaseInfo(answer.ttl, answer.granted_ttl, tuple(answer.keys))

    @asynccontextmanager
    async def hold(
        self, ttl_s: int, *, margin_s: float | None = None, stall_s: float = STALL_S
    ) -> AsyncIterator[Lease]:
        """A lease that a thread keeps alive, revoked at the end of the block.

        It counts as lost `margin_s` before its deadline (a tenth of its time unless told), or
        when the event loop stood still for `stall_s` and then for the lease's time.
        """
        lease = await self.grant(ttl_s, margin_s=ttl_s / 10 if margin_s is None else margin_s)
        keeper = self._keeper(lease, stall_s)
        keeper.start()
        try:
            yield lease
        finally:
            await keeper.stop()
            with suppress(EtcdError):  # it ends by itself, a little later
                await self.revoke(lease, timeout_s=lease.ttl_s)

    def _keeper(self, lease: Lease, stall_s: float) -> Keeper:
        caller = self._caller
        renewer = Renewer(caller.config, caller.current_token, caller.rotation.current)
        return Keeper(lease, renewer, stall_s=stall_s, clock=self._clock)

    async def _taken_up(self, lease_id: int, margin_s: float) -> Lease:
        """The lease of an attempt whose answer was lost."""
        sent_at = self._clock()
        ttl_s = await self._renewal(lease_id)
        if ttl_s == 0:
            raise Unavailable("etcd: a lease was granted too late to be of use")
        return Lease(lease_id, ttl_s, sent_at, margin_s=margin_s, clock=self._clock)

    async def _renewal(self, lease_id: int) -> int:
        request = schema.KEEP_ALIVE.request(id=lease_id)
        answer = await self._caller.call(schema.KEEP_ALIVE, request, repeatable=True)
        return int(answer.ttl)
