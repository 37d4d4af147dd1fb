"""What a worker holds: a lease, and under it its share of the slots; again when they are lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final

from nexus.etcd import Client, EtcdError, Fence, Keys, Lease, LeaseLost
from nexus.queue.etcd.hands import ClaimLost
from nexus.queue.etcd.housekeeping import Housekeeping
from nexus.queue.etcd.layout import Layout, Slot
from nexus.queue.etcd.owned import OwnedSlot
from nexus.queue.etcd.owners import Ownership, View

Recover = Callable[[OwnedSlot], Awaitable[int]]
_GATHER_S: Final = 0.02  # changes come in bursts
_log: Final = logging.getLogger(__name__)


class Holding:
    """Keeps a fair share of the slots for as long as it runs."""

    def __init__(
        self,
        client: Client,
        layout: Layout,
        worker: str,
        *,
        partitions: str,
        lease_s: int,
        poll_s: float,
        retry_s: float,
        recover: Recover,
        changed: asyncio.Event,
    ) -> None:
        self._client = client
        self._layout = layout
        self._worker = worker
        self._partitions = partitions
        self._lease_s = lease_s
        self._poll_s = poll_s
        self._retry_s = retry_s
        self._recover = recover
        self._look_again = asyncio.Event()
        self._changed = changed
        self._owned: dict[Slot, OwnedSlot] = {}
        self._lease: Lease | None = None
        self._turn = 0
        self.shared = asyncio.Event()  # slots were shared out once, or there is a problem
        self.problem: EtcdError | None = None

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(sorted(list(self._owned)))  # noqa: C414 - a copy: other threads ask too

    def __iter__(self) -> Iterator[OwnedSlot]:
        """Each owned slot once, beginning with another one each time."""
        slots = list(self._owned.values())
        self._turn += 1
        at = self._turn % len(slots) if slots else 0
        return iter(slots[at:] + slots[:at])

    def find(self, slot: Slot, fence: Fence) -> OwnedSlot | None:
        """The slot, if it is still owned under this token."""
        owned = self._owned.get(slot)
        return owned if owned is not None and owned.fence == fence else None

    def check(self) -> None:
        """ClaimLost when what was claimed may be another's by now."""
        if self._lease is None or self._lease.lost():
            raise ClaimLost("the worker's lease is lost, and with it all that was in hand")

    def settled(self) -> None:
        """Something left our hands: a slot that is to be released may be free for it."""
        if any(owned.releasing and not owned.hands for owned in self._owned.values()):
            self._look_again.set()

    async def live(self) -> None:
        """Hold a lease and slots, for ever; a new lease when one is lost."""
        while True:
            try:
                async with self._client.leases.hold(self._lease_s) as lease:
                    self._lease = lease
                    await lease.guard(self._session(lease))
            except (LeaseLost, ClaimLost) as lost:
                _log.warning("worker %s begins again: %s", self._worker, lost)
            except EtcdError as error:
                if not (error.retriable and self.shared.is_set()):
                    self.problem = error
                    self.shared.set()
                    self._changed.set()
                    return
                _log.warning("worker %s: %s", self._worker, error)
                await asyncio.sleep(self._poll_s)
            finally:
                self._owned.clear()

    async def _session(self, lease: Lease) -> None:
        ownership = Ownership(self._client, self._layout, self._worker, self._partitions, lease)
        await ownership.join()
        start, end = self._layout.metas("owners").start, self._layout.metas("slots").end
        keeping = Housekeeping(self._client, self._layout, self._worker)
        beside = [
            asyncio.ensure_future(
                hear(self._client, Keys(start, end), self._look_again, self._poll_s)
            ),
            asyncio.ensure_future(keeping.run(lease)),
        ]
        try:
            await self._share(ownership)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _share(self, ownership: Ownership) -> None:
        while True:
            self._look_again.clear()
            await self._take_share(ownership)
            self.shared.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._look_again.wait()
                    await asyncio.sleep(_GATHER_S)

    async def _take_share(self, ownership: Ownership) -> None:
        view = await ownership.look()
        mine = {slot for slot, worker in view.plan().items() if worker == self._worker}
        for slot, owned in list(self._owned.items()):
            await self._keep_or_release(ownership, view, owned, wanted=slot in mine)
        for slot in sorted(mine - self._owned.keys()):
            holder = view.owners.get(slot)
            if holder is None or holder.lease == ownership.lease.id:
                await self._take(ownership, slot, view.revision)

    async def _keep_or_release(
        self, ownership: Ownership, view: View, owned: OwnedSlot, *, wanted: bool
    ) -> None:
        holder = view.owners.get(owned.slot)
        if holder is None or holder.create_revision != owned.fence.token:
            # It may have been taken after the view; a token never comes back.
            if owned.fence.token <= view.revision:
                del self._owned[owned.slot]
            return
        owned.releasing = not wanted
        if owned.releasing and not owned.hands:
            del self._owned[owned.slot]
            await ownership.give_up(owned.fence)

    async def _take(self, ownership: Ownership, slot: Slot, revision: int) -> None:
        fence = await ownership.own(slot, revision)
        if fence is None:
            return
        owned = OwnedSlot(self._layout, slot, fence, retry_s=self._retry_s)
        returned = await self._recover(owned)
        if returned:
            _log.warning(
                "slot %s: %d messages were in the hands of a worker that ended", slot, returned
            )
        self._owned[slot] = owned
        self._changed.set()


async def hear(client: Client, keys: Keys, event: asyncio.Event, pause_s: float) -> None:
    """Set the event whenever one of the keys changes; whoever waits polls where this fails."""
    while True:
        try:
            async with client.watch(keys) as watch:
                event.set()  # for what came before
                async for batch in watch:
                    if batch.events:
                        event.set()
        except EtcdError as error:
            _log.warning("etcd: the watch of %r: %s", keys.start, error)
            event.set()
            await asyncio.sleep(pause_s)
