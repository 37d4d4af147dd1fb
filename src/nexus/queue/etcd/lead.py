"""Which collector takes messages out of which partitions: one at a time, by election.

The leader's key hangs on a lease; the revision of its creation is the token that every delete
compares. Spans that overlap exclude each other, and so do collectors and claim workers. Whoever
led last is noted beside it, so that one that lost its lease and gets it back knows whether it
may go on: only if nobody led in between.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from nexus.etcd import (
    Ambiguous,
    Client,
    Closed,
    EtcdError,
    Fence,
    Get,
    GetResult,
    KeyValue,
    Lease,
    LeaseLost,
    LeaseNotFound,
    NoSpace,
    Put,
    absent,
    mod_revision,
    release,
)
from nexus.etcd.blocking import BlockingClient
from nexus.etcd.claims import until_gone
from nexus.queue.errors import QueueAway, QueueError
from nexus.queue.etcd.layout import Layout, slot_of
from nexus.queue.etcd.owners import Span, spans_of, unowned_since
from nexus.queue.etcd.pressure import NO_SPACE

LEASE_S: Final = 6
ALL: Final = "all"
_AGAIN_S: Final = 1.0
_END_S: Final = 10.0


class QueueTaken(QueueError):
    """Raised when another collector has taken messages out since this one led."""

    exit_code = 1


class Standing(NamedTuple):
    """Somebody has some of the partitions: who, by which claim, and when that was seen."""

    who: str
    key: bytes
    token: int
    revision: int


class Won(NamedTuple):
    """We lead; `since` is the revision at which anybody else led these partitions last."""

    fence: Fence
    since: int


class Office:
    """The leadership of one span of partitions, such as `0-5,7`; empty for all."""

    def __init__(self, client: Client, layout: Layout, partitions: str, name: str) -> None:
        self._client, self._layout, self._name = client, layout, name
        self._span = partitions or ALL
        self._spans = spans_of(self._span)
        self.key = layout.meta("collectors", self._span)

    async def stand(self, lease: Lease) -> Won | Standing:
        """Lead, or say who does. A lost answer is no problem: nobody can be elected twice."""
        names = ("collectors", "owners", "led")
        since = 0
        while True:
            lease.check()
            seen = await self._client.txn(then=[Get(self._layout.metas(n)) for n in names])
            collectors, owners, led = (seen.got(at) for at in range(len(names)))
            for item in self._ours(collectors, "collectors"):
                if item.key == self.key and item.lease == lease.id:  # its answer was lost
                    return Won(Fence(self.key, item.create_revision), since)
                who = f"{_name(item)} collects from"
                return Standing(who, item.key, item.create_revision, seen.revision)
            for item in self._owned(owners):
                who = f"worker {item.value.decode(errors='replace')} claims messages of"
                return Standing(who, item.key, item.create_revision, seen.revision)
            since = max((item.mod_revision for item in self._ours(led, "led")), default=0)
            if (fence := await self._claim(lease, seen.revision)) is not None:
                return Won(fence, since)

    async def _claim(self, lease: Lease, revision: int) -> Fence | None:
        """The leadership, if nobody came since a revision."""
        said = json.dumps({"name": self._name, "partitions": self._span}).encode()
        try:
            done = await self._client.txn(
                when=[
                    absent(self.key),
                    mod_revision(self._layout.metas("collectors")).less(revision + 1),
                    mod_revision(self._layout.metas("led")).less(revision + 1),
                    unowned_since(self._layout, revision),
                ],
                then=[
                    Put(self.key, said, lease.id),
                    Put(self._layout.meta("led", self._span), said),
                ],
            )
        except Ambiguous:
            return None
        except LeaseNotFound as gone:
            lease.drop()
            raise LeaseLost(str(gone)) from gone
        return Fence(self.key, done.revision) if done.succeeded else None

    def _ours(self, found: GetResult, kind: str) -> list[KeyValue]:
        """Those whose spans overlap with this one."""
        start = len(self._layout.metas(kind).start)
        return [
            item
            for item in found.items
            if _overlap(self._spans, spans_of(item.key[start:].decode(errors="replace")))
        ]

    def _owned(self, owners: GetResult) -> list[KeyValue]:
        start = len(self._layout.metas("owners").start)
        return [i for i in owners.items if self._covers(i.key[start:].decode(errors="replace"))]

    def _covers(self, text: str) -> bool:
        with suppress(ValueError):
            slot = slot_of(text)
            return any(span.covers(slot) for span in self._spans)
        return False


class Lead:
    """Stands for office, keeps it, and stands again after a loss; in a thread until `stop`."""

    def __init__(
        self,
        etcd: BlockingClient,
        layout: Layout,
        partitions: str,
        name: str,
        *,
        lease_s: int = LEASE_S,
    ) -> None:
        self._etcd, self._layout = etcd, layout
        self._partitions, self._name, self._lease_s = partitions, name, lease_s
        self._held: tuple[Fence, Lease] | None = None
        self._token = 0  # of the last time that we led
        self._changed = threading.Condition()
        self._stopping: asyncio.Event | None = None
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queue-lead", daemon=True)
        self.standing = ""  # for whom we wait
        self.problem = ""  # why we cannot even stand
        self.usurper = ""  # set when another led since we did
        self.refusal = ""  # set when etcd does not let us, and trying again would not help

    def start(self) -> None:
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Until we lead; False when that does not happen in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.fence is not None, timeout_s)

    @property
    def fence(self) -> Fence | None:
        """The token, as long as the lease is certainly held."""
        held = self._held
        return None if held is None or held[1].lost() else held[0]

    def check(self) -> Fence:
        """The token; QueueTaken when another led meanwhile, QueueAway while nobody can tell."""
        if self.refusal:
            raise QueueError(f"queue {self._layout.prefix}: {self.refusal}")
        if self.usurper:
            raise QueueTaken(
                f"queue {self._layout.prefix}: {self.usurper} has taken over while this collector"
                " could not renew its lease; start it again to stand by"
            )
        fence = self.fence
        if fence is None:
            raise QueueAway(
                f"queue {self._layout.prefix}: the lease ran out and is not renewed yet"
                f" ({self.problem or self.standing or 'waiting for etcd'})"
            )
        return fence

    def doubt(self, fence: Fence) -> None:
        """etcd refused this token: the lease is given up, and we stand anew."""
        held = self._held
        if held is not None and held[0] == fence:
            held[1].drop()

    def stop(self) -> None:
        """Let another lead at once; safe to call twice."""
        self._halt.set()
        if self._thread.is_alive():
            with suppress(EtcdError):
                self._etcd.run(self._told_to_stop)
            self._thread.join(_END_S)

    def _run(self) -> None:
        while not (self._halt.is_set() or self.usurper or self.refusal):
            try:
                self._etcd.run(self._lead)
            except NoSpace:
                self._note(problem=NO_SPACE)
            except EtcdError as error:
                self._note(problem=str(error))
                if not (error.retriable or isinstance(error, LeaseLost | Ambiguous | Closed)):
                    self.refusal = str(error)
            self._halt.wait(_AGAIN_S)

    async def _told_to_stop(self, client: Client) -> None:
        if self._stopping is not None:
            self._stopping.set()

    async def _lead(self, client: Client) -> None:
        """One lease's life."""
        self._stopping = asyncio.Event()
        async with client.leases.hold(self._lease_s) as lease:
            work = asyncio.ensure_future(lease.guard(self._serve(client, lease)))
            stop = asyncio.ensure_future(self._stopping.wait())
            try:
                if not self._halt.is_set():
                    await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
            finally:
                await _ended(work, stop)
                await self._give_up(client)

    async def _give_up(self, client: Client) -> None:
        held, self._held = self._held, None
        if held is not None and self._halt.is_set():
            with suppress(EtcdError):  # the lease ends it otherwise
                await release(client, held[0])

    async def _serve(self, client: Client, lease: Lease) -> None:
        office = Office(client, self._layout, self._partitions, self._name)
        while isinstance(outcome := await office.stand(lease), Standing):
            self._stood(outcome)
            if self.usurper:
                return
            await until_gone(client, outcome.key, outcome.revision)
        self._elected(outcome, lease)
        if not self.usurper:
            await lease.wait_lost()

    def _stood(self, outcome: Standing) -> None:
        """Somebody else leads; if we led before, it has taken over, unless it is what we left."""
        with self._changed:
            self.standing, self.problem = outcome.who, ""
            if self._token and outcome.token != self._token:
                self.usurper = outcome.who.partition(" ")[0]
            self._changed.notify_all()

    def _elected(self, outcome: Won, lease: Lease) -> None:
        with self._changed:
            self.standing = self.problem = ""
            if self._token and outcome.since > self._token:
                self.usurper = "another collector"
            else:
                self._token = outcome.fence.token
                self._held = outcome.fence, lease
            self._changed.notify_all()

    def _note(self, problem: str) -> None:
        with self._changed:
            self.problem = problem
            self._changed.notify_all()


def _name(item: KeyValue) -> str:
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(item.value)["name"])
    return "another collector"


def _overlap(one: Iterable[Span], other: Iterable[Span]) -> bool:
    others = tuple(other)
    return any(a.first <= b.last and b.first <= a.last for a in one for b in others)


async def _ended(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
