"""Being a member: one key under the broker's lease, put once for each process.

A process that holds a data directory may replace the registration of the one that held it before;
nobody else may.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from nexus.cluster.errors import BrokerIdTaken
from nexus.cluster.etcd.keys import Places, directory_of, member_of, member_value
from nexus.cluster.port import Member
from nexus.etcd import Ambiguous, Client, Compare, Lease, LeaseLost, Put, absent, mod_revision
from nexus.etcd.errors import EtcdError, LeaseNotFound

_LOOK_AGAIN_SECONDS: Final = 0.5
_LEASES_WAITED_FOR: Final = 3


async def register(client: Client, places: Places, me: Member, directory: str, lease: Lease) -> int:
    """Be a member; returns the version of the registration.

    BrokerIdTaken when another broker keeps the id for longer than a dead one could.
    """
    key, value = places.broker(me.id), member_value(me, directory)
    patience = _LEASES_WAITED_FOR * lease.ttl_s / _LOOK_AGAIN_SECONDS
    while True:
        lease.check()
        item = await client.get(key)
        when: Compare
        if item is None:
            when = absent(key)
        elif item.lease == lease.id:  # an earlier attempt, whose answer was lost
            return item.mod_revision
        elif directory_of(item) == directory:
            when = mod_revision(key).equals(item.mod_revision)
        else:
            patience -= 1
            if patience <= 0:
                other = member_of(me.id, item)
                raise BrokerIdTaken(me.id, other.host, other.port)
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            continue
        try:
            done = await client.txn(when=[when], then=[Put(key, value, lease.id)])
        except Ambiguous:
            continue
        except LeaseNotFound as gone:
            lease.drop()
            raise LeaseLost(str(gone)) from gone
        if done.succeeded:
            if item is not None:
                await _end(client, item.lease)
            return done.revision


async def _end(client: Client, lease: int) -> None:
    """End what the process before held: it may have been the controller."""
    with suppress(EtcdError):
        await client.leases.revoke(lease, timeout_s=2.0)
