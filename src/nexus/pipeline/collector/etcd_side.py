"""The collector's own conversation with a queue in etcd: who leads, what waits, what is taken out.

In a thread of its own, apart from Spark. Messages are deleted when Spark has committed them in
every store; the leader also compacts etcd's history, folds old counters and looks for keys that
others put beside the slots.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from nexus.etcd import Client, EtcdError, Fence, Fenced, Get
from nexus.etcd.blocking import BlockingClient
from nexus.observe.logs import get_logger
from nexus.pipeline.collector.claims import spans_of
from nexus.pipeline.collector.progress import Held, Progress
from nexus.queue.errors import QueueAway, QueueError
from nexus.queue.etcd.compaction import Compactor
from nexus.queue.etcd.counts import Depth, depths, fold, totals
from nexus.queue.etcd.deleting import Deleter, Taken
from nexus.queue.etcd.faults import as_queue_errors
from nexus.queue.etcd.layout import Slot, timestamp_ns_of
from nexus.queue.etcd.lead import ALL, Lead
from nexus.queue.etcd.positions import Positions, positions_of
from nexus.queue.etcd.pressure import look as look_at_room
from nexus.queue.etcd.pressure import quota_of
from nexus.queue.etcd.slots import known_slots, probe
from nexus.queue.url import EtcdUrl
from nexus.settings.collector import CollectorSection

log = get_logger(__name__)

LOOK_S: Final = 2.0
COUNT_S: Final = 10.0
FOLD_S: Final = 3600.0
_WAKE_S: Final = 0.5
_JOIN_S: Final = 10.0
_LOOKS_SHARE: Final = 20  # etcd walks over all that waits: at most such a part of its time


class EtcdSide:
    """`hold`, `wait`, `start`, then `done` with every committed batch, then `stop`."""

    def __init__(self, url: EtcdUrl, own: CollectorSection, progress: Progress) -> None:
        self._url, self._layout = url, url.layout
        self._spans = spans_of(own.partitions)
        self._progress = progress
        self._etcd = BlockingClient(url.address.config())
        self._lead = Lead(self._etcd, self._layout, own.partitions, own.name)
        self._deleter = self._etcd.run(lambda client: self._made(client, own.partitions or ALL))
        self._told: list[Mapping[str, Any]] = []
        self._held = Held({})
        self._has_counted = False
        self._quota_bytes = 0
        self._due = {"look": 0.0, "count": 0.0, "fold": 0.0}
        self._warned = ""
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="queue-side", daemon=True)

    async def _made(self, client: Client, span: str) -> Deleter:
        self._compactor = Compactor(client, self._layout.meta("config"))
        return Deleter(client, self._layout, f"collectors-{span}")

    # Being the one who collects

    def hold(
        self,
        stopped: Callable[[], bool],
        standing: Callable[[str], None],
        waiting: Callable[[str], None],
    ) -> bool:
        """Until this collector leads; False when told to stop. Says for whom or what it waits."""
        self._lead.start()
        while not stopped():
            if self._lead.wait(0.2):
                return True
            self.check()
            if self._lead.standing:
                standing(f"{self._lead.standing} {self._url}")
            elif self._lead.problem:
                waiting(self._lead.problem)
        return False

    def check(self) -> None:
        """QueueTaken when another has taken over, QueueError when etcd does not let us collect."""
        if self._lead.usurper or self._lead.refusal:
            self._lead.check()

    def token(self) -> Fence | None:
        """By which this collector leads; None while it does not."""
        return self._lead.fence

    def guard(self) -> None:
        """Raise unless this collector leads, now and as etcd says; before a batch is stored."""
        fence = self._lead.check()
        with as_queue_errors(self._url):
            found = self._etcd.get(fence.key)
        if found is None or found.create_revision != fence.token:
            self._lead.doubt(fence)
            raise QueueAway(f"queue {self._url}: the lead is lost; it is looked for anew")

    # As long as it runs

    def wait(self, stopped: Callable[[], bool], waiting: Callable[[str], None]) -> bool:
        """Until the queue answers; False when told to stop before it does."""
        while not stopped():
            try:
                with as_queue_errors(self._url):
                    self._quota_bytes = self._etcd.run(self._quota)
                    self._look()
            except QueueAway as error:
                self._progress.queue(None, str(error))
                waiting(str(error))
                time.sleep(_WAKE_S)
            else:
                return True
        return False

    async def _quota(self, client: Client) -> int:
        return await quota_of(client.config, self._url.quota_bytes)

    def start(self) -> None:
        self._thread.start()

    def done(self) -> None:
        """There may be something new to take out."""
        self._wake.set()

    def stop(self) -> None:
        """Take out what the last batch came to, let another lead, and end; safe to call twice."""
        self._is_stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
        if self._lead.fence is not None and not self._thread.is_alive():
            self._clear()
            with suppress(EtcdError):
                self._look()
        self._lead.stop()
        self._etcd.close()

    def _run(self) -> None:
        while not self._is_stopping:
            self._wake.wait(_WAKE_S)
            self._wake.clear()
            if self._lead.fence is None:
                self._tell_of_loss()
                continue
            self._clear()
            if time.monotonic() >= self._due["look"] and not self._is_stopping:
                self._look_and_tell()

    def _tell_of_loss(self) -> None:
        try:
            self._lead.check()
        except QueueError as error:
            self._progress.queue(None, str(error))

    # Taking out

    def _clear(self) -> None:
        """Delete what every store has; what fails is tried again with the next."""
        places = [store.place for store in self._progress.view().stores]
        fence = self._lead.fence
        if not all(places) or places == self._told or fence is None:
            return
        try:
            stores = [positions_of(place) for place in places]
            taken = self._etcd.run(lambda client: self._taken(client, stores, fence))
        except Fenced:
            self._lead.doubt(fence)
            return
        except (EtcdError, QueueError) as error:
            if str(error) != self._warned:
                log.warning("messages could not be taken out", queue=str(self._url), why=str(error))
            self._warned = str(error)
            return
        self._told, self._warned = places, ""
        self._held = replace(
            self._held,
            taken=self._held.taken + taken.took.keys,
            conflicts=self._held.conflicts + taken.conflicts,
        )

    async def _taken(self, client: Client, stores: Sequence[Positions], fence: Fence) -> Taken:
        return await self._deleter.clear(await self._slots(client), stores, fence)

    # Looking

    def _look_and_tell(self) -> None:
        try:
            with as_queue_errors(self._url):
                self._look()
        except QueueError as error:
            self._progress.queue(None, str(error))
        else:
            self._keep_up()

    def _look(self) -> None:
        """What waits, how long it has, and how full etcd is."""
        begun = time.monotonic()
        found = self._etcd.run(self._depths)
        room = self._etcd.run(lambda client: look_at_room(client, self._quota_bytes))
        self._held = replace(
            self._held,
            waiting=self._by_partition(found),
            oldest_s=_oldest_s(found),
            db_bytes=room.db_bytes,
            in_use_bytes=room.in_use_bytes,
            quota_bytes=room.quota_bytes,
        )
        if begun >= self._due["count"]:
            self._count()
            self._due["count"] = begun + max(COUNT_S, self._long(begun))
        self._progress.holds(self._held)
        self._due["look"] = time.monotonic() + max(LOOK_S, self._long(begun))

    @staticmethod
    def _long(begun: float) -> float:
        return _LOOKS_SHARE * (time.monotonic() - begun)

    def _by_partition(self, found: Sequence[Depth]) -> dict[int, int]:
        floors = [positions_of(s.place).floor for s in self._progress.view().stores if s.place]
        floor = min(floors, default=0)
        waiting: dict[int, int] = {}
        for slot, keys, _ in found:
            count = self._above(slot, floor) if keys and floor else keys
            waiting[slot.partition] = waiting.get(slot.partition, 0) + count
        return waiting

    def _above(self, slot: Slot, floor: int) -> int:
        """How many messages of a slot are ours: what was there before our start is not."""
        pages = self._etcd.scan(Get(self._layout.slot(slot), keys_only=True))
        return sum(item.mod_revision > floor for page in pages for item in page.items)

    async def _depths(self, client: Client) -> list[Depth]:
        return await depths(client, self._layout, await self._slots(client))

    async def _slots(self, client: Client) -> list[Slot]:
        known = await known_slots(client, self._layout)
        return [s for s in known if any(a <= s.partition <= b for a, b in self._spans)]

    def _count(self) -> None:
        """What has expired: a message that was published, not taken, and does not wait."""
        expired = self._etcd.run(lambda client: totals(client, self._layout)).expired
        if self._has_counted and expired > self._held.expired:
            log.warning(
                "messages expired before they were collected: they are lost",
                queue=str(self._url),
                messages=expired - self._held.expired,
            )
        self._held = replace(self._held, expired=expired)
        self._has_counted = True

    # What the leader does for the queue

    def _keep_up(self) -> None:
        """What fails here holds nobody up; it is tried again with the next look."""
        fence = self._lead.fence
        if fence is None:
            return
        try:
            self._etcd.run(lambda client: probe(client, self._layout))
            self._etcd.run(lambda _: self._compactor.step())
            if time.monotonic() >= self._due["fold"]:
                now_ms = time.time_ns() // 1_000_000
                self._etcd.run(lambda client: fold(client, self._layout, now_ms, fence=fence))
                self._due["fold"] = time.monotonic() + FOLD_S
        except (EtcdError, QueueError) as error:
            log.debug("the queue's upkeep failed", queue=str(self._url), why=str(error))


def _oldest_s(found: Sequence[Depth]) -> float | None:
    """How long the oldest message waits, as its key tells."""
    times = [timestamp_ns_of(depth.oldest) for depth in found if depth.oldest is not None]
    known = [moment for moment in times if moment is not None]
    return max(0.0, time.time() - min(known) / 1e9) if known else None
