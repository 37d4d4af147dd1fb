"""Time to live for messages: few leases for many keys, each for some thousand of them.

A lease is granted for a tenth longer than asked, and used for that tenth only: every key lives at
least as long as it should. Leases whose keys are all taken are given back, or a busy queue would
have a hundred thousand of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import suppress
from typing import Final

from nexus.etcd import Client, EtcdError, Lease, LeaseNotFound

KEYS_MOST: Final = 4000  # on one lease: with more, puts on it become slow
TIDY_S: Final = 1.0
_TIDIED_AT_ONCE: Final = 20
_BUSY_AT_ONCE: Final = 2  # to see that a lease is in use brings all of its keys


class RotatingLease:
    """The lease for the next keys; for one event loop."""

    def __init__(self, client: Client, ttl_s: int) -> None:
        self._client, self._ttl_s = client, ttl_s
        self._current: Lease | None = None
        self._keys = 0
        self._old: deque[int] = deque()
        self._users: Counter[int] = Counter()
        self._granting = asyncio.Lock()

    async def lease_for(self, keys: int) -> int:
        """The id of the lease to put so many keys on; `release` it when they are put, or not."""
        async with self._granting:
            current = self._current
            if current is None or self._keys >= KEYS_MOST or current.lost():
                current = await self._next()
            self._keys += keys
            self._users[current.id] += 1
            return current.id

    def release(self, lease_id: int) -> None:
        """The keys' fate is known."""
        self._users[lease_id] -= 1
        if not self._users[lease_id]:
            del self._users[lease_id]

    def drop(self, lease_id: int) -> None:
        """The server has it no more: the next keys get another."""
        if self._current is not None and self._current.id == lease_id:
            self._current = None

    async def keep_tidy(self) -> None:
        """Give back leases that no key hangs on any more; runs until cancelled."""
        while True:
            await asyncio.sleep(TIDY_S)
            with suppress(EtcdError):  # they end by themselves, later
                await self._tidy()

    async def _next(self) -> Lease:
        if self._current is not None:
            self._old.append(self._current.id)
            self._current = None
        spare_s = max(1, self._ttl_s // 10)
        # Its last `ttl_s` seconds are for the keys that were put last.
        granted = await self._client.leases.grant(self._ttl_s + spare_s, margin_s=self._ttl_s)
        self._current, self._keys = granted, 0
        return granted

    async def _tidy(self) -> None:
        busy = 0
        for _ in range(min(len(self._old), _TIDIED_AT_ONCE)):
            lease_id = self._old.popleft()
            if not await self._is_given_back(lease_id):
                self._old.append(lease_id)
                busy += 1
            if busy >= _BUSY_AT_ONCE:
                return

    async def _is_given_back(self, lease_id: int) -> bool:
        # A transaction that still uses it could put keys just before it is revoked.
        if lease_id in self._users:
            return False
        try:
            if (await self._client.leases.look(lease_id, keys=True)).keys:
                return False
        except LeaseNotFound:
            return True
        await self._client.leases.revoke(lease_id)
        return True
