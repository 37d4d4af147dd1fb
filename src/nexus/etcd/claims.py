"""Holding a key alone: the one mechanism under locks, elections and membership.

A claim is a key created under a lease, only if it is absent. The revision of its creation is a
fencing token: greater than every token before, and compared by every write that depends on it.
Holding a claim guarantees nothing by itself, since a process can be paused at any point; the
compare does.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from nexus.etcd.client import Client
from nexus.etcd.compare import Compare, absent, create_revision
from nexus.etcd.errors import Ambiguous, Compacted, Fenced, LeaseLost, LeaseNotFound
from nexus.etcd.keys import Keys
from nexus.etcd.lease import Lease
from nexus.etcd.operations import Delete, Get, Operation, Put
from nexus.etcd.results import KeyValue, TxnResult

_RELEASES = 3


class Fence(NamedTuple):
    """A claim that was won: its key, and the token that tells it from every other."""

    key: bytes
    token: int

    def holds(self) -> Compare:
        """For a transaction: the claim is still this one."""
        return create_revision(self.key).equals(self.token)


class Taken(NamedTuple):
    """Another holds the claim; `revision` is when that was seen."""

    holder: KeyValue
    revision: int


async def try_claim(client: Client, key: bytes, value: bytes, lease: Lease) -> Fence | Taken:
    """The claim, or who has it. A lost answer is no problem: a claim cannot be made twice."""
    while True:
        lease.check()
        try:
            done = await client.txn(
                when=[absent(key)], then=[Put(key, value, lease.id)], otherwise=[Get(Keys(key))]
            )
        except Ambiguous:
            continue
        except LeaseNotFound as gone:
            lease.drop()
            raise LeaseLost(str(gone)) from gone
        if done.succeeded:
            return Fence(key, done.revision)
        holder = done.got(0).items[0]
        if holder.lease == lease.id:  # an earlier attempt, whose answer was lost
            return Fence(key, holder.create_revision)
        return Taken(holder, done.revision)


async def claim(client: Client, key: bytes, value: bytes, lease: Lease) -> Fence:
    """Wait until the claim is ours; LeaseLost when the lease goes while waiting."""
    return await lease.guard(_claim(client, key, value, lease))


async def _claim(client: Client, key: bytes, value: bytes, lease: Lease) -> Fence:
    while isinstance(outcome := await try_claim(client, key, value, lease), Taken):
        await until_gone(client, key, outcome.revision)
    return outcome


async def until_gone(client: Client, key: bytes, revision: int) -> None:
    """Return when the key, which was there at a revision, has (most likely) been deleted since."""
    # Compacted: what happened since is not told any more, so whoever waits has to look again.
    with suppress(Compacted):
        async with client.watch(key, start_revision=revision + 1, puts=False) as deletions:
            async for batch in deletions:
                if batch.events:
                    return


async def release(client: Client, fence: Fence) -> None:
    """Give a claim back, if it is still ours; safe to call twice, and after a loss."""
    for attempt in range(_RELEASES):
        try:
            await client.txn(when=[fence.holds()], then=[Delete(Keys(fence.key))])
        except Ambiguous:  # nobody can delete this claim twice
            if attempt == _RELEASES - 1:
                raise
        else:
            return


async def fenced(
    client: Client,
    fence: Fence,
    then: Iterable[Operation],
    *,
    when: Iterable[Compare] = (),
    timeout_s: float | None = None,
) -> TxnResult:
    """Write only as the holder: Fenced when the claim is another's by now.

    The result tells whether the other compares held. An Ambiguous one may be repeated only if
    `when` makes that harmless.
    """
    done = await client.txn(
        when=[fence.holds(), *when],
        then=then,
        otherwise=[Get(Keys(fence.key), keys_only=True)],
        timeout_s=timeout_s,
    )
    if not done.succeeded:
        holder = done.got(0).first
        if holder is None or holder.create_revision != fence.token:
            raise Fenced(f"etcd {fence.key!r}: token {fence.token} is no longer valid")
    return done
