"""The newest messages of a queue in etcd as they arrive, for whoever looks on.

A watch on the messages, deletions left out. It begins with what comes after it was opened, and
never lags long: where it falls behind it goes to the end, and counts about what it passed over. A
key beside the slots is seen when it is adopted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from nexus.etcd import Client, Compacted, EtcdError, Get, KeyValue, Watch, WatchBatch
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import QueueError
from nexus.queue.etcd.counts import entry_of, sum_of
from nexus.queue.etcd.forms import unpack_or_raw
from nexus.queue.etcd.layout import readings_in, timestamp_ns_of
from nexus.queue.etcd.slots import DEFAULT_PARTITIONS, partitions_of
from nexus.queue.port import Received
from nexus.queue.url import EtcdUrl

_OPEN_S: Final = 2.0
_AGAIN_S: Final = 0.5


class EtcdTail:
    """For one thread at a time. While etcd is away nothing comes, and `problem` says why."""

    def __init__(
        self,
        url: EtcdUrl,
        *,
        patience_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self.skipped = 0
        self.problem = ""
        self._layout = url.layout
        self._clock, self._patience_s = clock, patience_s
        self._watch: Watch | None = None
        self._partitions = 0
        self._next = 0  # the revision that comes next
        # As the bells tell: how many messages were published before, and the last one's revision.
        self._published = self._seen = self._mark = 0
        self._marked = clock()
        self._was_idle = True
        self._is_closed = False
        try:
            config = replace(url.address.config(), timeout_s=_OPEN_S)
        except EtcdError as error:
            raise QueueError(f"queue {url}: {error}") from None
        self._etcd = BlockingClient(config)
        self._attach()

    def positions(self) -> Mapping[int, int]:
        """Of each partition the revision that comes next; it is the same for all."""
        return dict.fromkeys(range(self._partitions), self._next) if self._next else {}

    def poll(self, timeout_s: float) -> Sequence[Received]:
        """What has come; waits for the first message only."""
        if self._is_closed:
            return ()
        if self._watch is None and not self._attach():
            time.sleep(min(timeout_s, _AGAIN_S))
            return ()
        try:
            if self._clock() - self._marked >= self._patience_s:
                self._catch_up()
            return self._come(timeout_s)
        except Compacted:
            self._skip()
        except EtcdError as error:
            self._fail(error)
        return ()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._detach()
            self._etcd.close()

    def _come(self, timeout_s: float) -> list[Received]:
        watch = self._watch
        assert watch is not None
        batch = self._etcd.run(lambda _: watch.next(timeout_s))
        if batch is None:
            self._was_idle = self._was_idle or timeout_s > 0
            self.problem = "" if watch.attached else f"queue {self.url}: etcd does not answer"
            return []
        self.problem = ""
        self._next = batch.revision + 1
        return self._received(batch)

    def _received(self, batch: WatchBatch) -> list[Received]:
        found: list[Received] = []
        for event in batch.events:
            slot = self._layout.slot_of_key(event.key)
            if slot is not None:
                self._seen += readings_in(event.key)
                found += received(slot.partition, event.item)
                self._partitions = max(self._partitions, slot.partition + 1)
        return found

    def _attach(self) -> bool:
        """Watch from now on; False, and a problem, when nobody answers."""
        try:
            self._partitions = self._partitions or self._etcd.run(self._count)
            self._watch = self._etcd.run(self._opened)
            self._next, self._seen = self._watch.next_revision, 0
            self._published = self._look()
        except (EtcdError, QueueError) as error:
            self._fail(error)
            return False
        self.problem = ""
        return True

    async def _opened(self, client: Client) -> Watch:
        return await client.watch(self._layout.messages, deletes=False).__aenter__()

    async def _count(self, client: Client) -> int:
        return await partitions_of(client, self._layout) or DEFAULT_PARTITIONS

    def _look(self) -> int:
        """Mark where the queue ends now; how many messages were published so far."""
        bells = [
            entry_of(item) for item in self._etcd.range(Get(self._layout.metas("bells"))).items
        ]
        self._mark = max((bell.revision for bell in bells), default=0)
        self._marked, self._was_idle = self._clock(), False
        return sum_of(bells).messages

    def _catch_up(self) -> None:
        """Pass over what is left if a whole period was not enough for what it began with."""
        if not self._was_idle and self._next <= self._mark:
            self._skip()
        else:
            self._look()

    def _skip(self) -> None:
        """Go to the end."""
        before, seen = self._published, self._seen
        self._detach()
        if self._attach():
            self.skipped += max(0, self._published - before - seen)

    def _fail(self, error: EtcdError | QueueError) -> None:
        self.problem = f"queue {self.url}: {error}"
        self._detach()

    def _detach(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            self._etcd.run(lambda _: watch.close())


def received(partition: int, item: KeyValue) -> Iterator[Received]:
    """The messages in a key's value; their offset is the revision at which it was put."""
    timestamp_ms = (timestamp_ns_of(item.key) or 0) // 1_000_000
    frames, _ = unpack_or_raw(item.value)
    for frame in frames:
        yield Received(
            partition,
            item.mod_revision,
            frame.timestamp_ms or timestamp_ms,
            frame.key,
            frame.value,
            frame.headers,
        )
