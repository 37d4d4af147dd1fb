"""Competing workers outside Spark: claim messages, settle them, and nobody else has them meanwhile.

A worker owns slots (`owners`) for as long as its lease lives, so claiming costs one transaction
for many messages, and acknowledging one more. A worker that dies gives everything back when its
lease ends. Everything here belongs to one event loop; `worker.Worker` is the same for threads.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from nexus.etcd import (
    Ambiguous,
    Client,
    Delete,
    EtcdError,
    Get,
    GetResult,
    Keys,
    Limits,
    Operation,
    Put,
    ResponseTooLarge,
    absent,
)
from nexus.queue.etcd.attempts import MAX_ATTEMPTS, RETRY_S, Failure, Places
from nexus.queue.etcd.failing import Failing
from nexus.queue.etcd.hands import Claimed, ClaimLost, Hand
from nexus.queue.etcd.holding import Holding, hear
from nexus.queue.etcd.layout import Layout, Slot, safe
from nexus.queue.etcd.owned import OwnedSlot
from nexus.queue.etcd.recovery import recover
from nexus.queue.etcd.settler import Settler
from nexus.queue.etcd.settling import acknowledged

LEASE_S: Final = 10
POLL_S: Final = 1.0
_OWN_OPERATIONS: Final = 4  # beside those for the messages, in any transaction of ours


@dataclass(frozen=True, slots=True)
class ClaimOptions:
    """How a worker works. `name` is made unique: a restart need not wait for its past."""

    name: str = field(default_factory=socket.gethostname)
    partitions: str = ""  # such as `0-5,7`; empty for all
    lease_s: int = LEASE_S
    poll_s: float = POLL_S  # how long nobody looks when no bell rings
    max_attempts: int = MAX_ATTEMPTS
    retry_s: float = RETRY_S
    workers: int = 1  # threads of `Worker.work`


class Claims:
    """One worker's part in a queue; made by `joined`."""

    def __init__(
        self, client: Client, layout: Layout, limits: Limits, options: ClaimOptions
    ) -> None:
        self._client = client
        self._layout = layout
        self._limits = limits
        self._options = options
        self._rung = asyncio.Event()
        self._listing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self.name = f"{safe(options.name)}-{secrets.token_hex(4)}"
        self._holding = Holding(
            client,
            layout,
            self.name,
            partitions=options.partitions,
            lease_s=options.lease_s,
            poll_s=options.poll_s,
            retry_s=options.retry_s,
            recover=self._recover,
            changed=self._rung,
        )
        self._settler = Settler(
            client, layout, self.name, limits=limits, still_held=self._holding.check
        )
        self._failing = Failing(self._settler, layout, self.name, options.max_attempts)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """What this worker owns now."""
        return self._holding.slots

    @property
    def conflicts(self) -> int:
        """How often messages came between those in hand, and had to be stepped over."""
        return self._settler.conflicts

    @property
    def buried(self) -> int:
        """How many messages became dead letters here."""
        return self._failing.buried

    async def start(self) -> None:
        """Join the workers; returns when slots were shared out once."""
        bells = self._layout.metas("bells")
        self._tasks = [
            asyncio.create_task(self._holding.live()),
            asyncio.create_task(hear(self._client, bells, self._rung, self._options.poll_s)),
        ]
        await self._holding.shared.wait()
        if self._holding.problem is not None:
            await self.close()
            raise self._holding.problem

    async def claim(self, n: int, wait_s: float = 0.0) -> list[Claimed]:
        """Messages of one slot, up to `n` readings; one message at least, if there is any.

        Waits at most so long for the first; then the list is empty.
        """
        deadline = asyncio.get_running_loop().time() + wait_s
        while True:
            if self._holding.problem is not None:
                raise self._holding.problem
            self._rung.clear()
            claimed = []
            with suppress(ClaimLost):  # of a slot that went to another just now
                claimed = await self._claim_known(n) or await self._claim_listed(n)
            left_s = deadline - asyncio.get_running_loop().time()
            if claimed or left_s <= 0:
                return claimed
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, self._options.poll_s)):
                    await self._rung.wait()

    async def ack(self, claims: Sequence[Claimed], puts: Iterable[Put] = ()) -> None:
        """All of these are done and `puts` are stored, in one atomic step; or ClaimLost."""
        if not claims:
            return
        settled = [acknowledged(self._places(each), each) for each in claims]
        settled[-1] = acknowledged(self._places(claims[-1]), claims[-1], puts)
        await self._settler.together(settled)
        self._forget(claims, gone=True)

    async def ack_each(self, done: Iterable[tuple[Claimed, Iterable[Put]]]) -> None:
        """Each message is done, and what it led to is stored with it; or ClaimLost.

        As many share a transaction as etcd takes. Of a message that led to more than one holds,
        the first puts go ahead: if the worker dies before the last, they are put again.
        """
        pairs = list(done)
        await self._settler.each([acknowledged(self._places(each), each, p) for each, p in pairs])
        self._forget([claimed for claimed, _ in pairs], gone=True)

    async def nack(self, claims: Sequence[Claimed], reason: str) -> None:
        """These failed: tried again later and singly, or dead letters after the last attempt."""
        dead = await self._failing.fail(claims, reason, self._note)
        self._forget(claims, gone=False)
        self._forget(dead, gone=True)

    async def close(self) -> None:
        """Give back what is in hand, uncounted, and leave; safe to call twice."""
        tasks, self._tasks = self._tasks, []
        if tasks:
            for owned in self._holding:
                for hand in tuple(owned.hands):
                    with suppress(EtcdError, ClaimLost):
                        await self._let_go(owned, hand)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _claim_known(self, n: int) -> list[Claimed]:
        """Of the slots whose keys are known, the next one's."""
        for owned in self._holding:
            while owned.ready:
                if claimed := await self._take(owned, n):
                    return claimed
        return []

    async def _claim_listed(self, n: int) -> list[Claimed]:
        async with self._listing:
            for recent in (False, True):
                if not any(owned.ready for owned in self._holding):
                    await self._list(recent=recent)
        return await self._claim_known(n)

    async def _list(self, *, recent: bool) -> None:
        idle = [owned for owned in self._holding if owned.idle]
        most = self._limits.operations
        for at in range(0, len(idle), most):
            asked = idle[at : at + most]
            questions = [owned.question(recent=recent) for owned in asked]
            done = await self._client.txn(then=questions)
            for place, owned in enumerate(asked):
                owned.listed(done.got(place))

    async def _take(self, owned: OwnedSlot, n: int) -> list[Claimed]:
        """The next messages of a slot, if they are still there."""
        hand = owned.reach(n, self._limits.operations - _OWN_OPERATIONS, self.name)
        if hand is None:
            return []
        try:
            found, revision = await self._read(hand)
        except ResponseTooLarge:
            await self._let_go(owned, hand)
            owned.list_fewer()
            return []
        except BaseException:
            owned.hands.discard(hand)
            owned.forget_listed()
            raise
        hand.filled(found.items, revision, owned.attempts())
        if not hand.pending:  # they expired, or were drained, since they were listed
            await self._let_go(owned, hand)
        return list(hand.pending.values())

    async def _read(self, hand: Hand) -> tuple[GetResult, int]:
        """The messages, and the revision at which they were recorded as being in hand."""
        when = [hand.fence.holds(), absent(hand.record)]
        then: list[Operation] = [Put(hand.record, hand.described()), Get(hand.keys)]
        otherwise = [Get(Keys(hand.fence.key)), Get(Keys(hand.record)), Get(hand.keys)]
        while True:
            self._holding.check()
            try:
                done = await self._client.txn(when=when, then=then, otherwise=otherwise)
            except Ambiguous:  # the record cannot be made twice
                continue
            if done.succeeded:
                return done.got(1), done.revision
            owner, record = done.got(0).first, done.got(1).first
            if owner is None or owner.create_revision != hand.fence.token or record is None:
                raise ClaimLost(f"slot {hand.slot}: another worker owns it by now")
            return done.got(2), record.create_revision

    async def _let_go(self, owned: OwnedSlot, hand: Hand) -> None:
        """Have nothing in hand, without a word on what was."""
        owned.hands.discard(hand)
        await self._settler.fenced(hand, [Delete(Keys(hand.record))])

    async def _recover(self, owned: OwnedSlot) -> int:
        return await recover(self._client, self._layout, owned, self._settler, self._failing)

    def _note(self, claimed: Claimed, failure: Failure) -> None:
        owned = self._holding.find(claimed.slot, claimed.hand.fence)
        if owned is not None:
            owned.note(claimed, failure)

    def _forget(self, claims: Iterable[Claimed], *, gone: bool) -> None:
        for claimed in claims:
            owned = self._holding.find(claimed.slot, claimed.hand.fence)
            if owned is not None:
                owned.settled(claimed.hand, [claimed.key] if gone else [])
        self._holding.settled()

    def _places(self, claimed: Claimed) -> Places:
        return Places(self._layout, claimed.slot)


async def joined(client: Client, layout: Layout, options: ClaimOptions | None = None) -> Claims:
    """A worker of a queue that has its share of the slots."""
    claims = Claims(client, layout, await client.limits(), options or ClaimOptions())
    await claims.start()
    return claims
