"""Carries messages from a queue into Redis; the way back of an import.

From Kafka it reads what is there and takes nothing out: its place is in Redis, and at first where a
group had come to. From etcd, messages are taken out once Redis has them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Protocol

from nexus.etcd import Client, Get, KeyValue, ResponseTooLarge
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import OffsetsMissing, QueueAway, QueueError
from nexus.queue.etcd.draining import KEPT_KEYS, Drain, Drained
from nexus.queue.etcd.faults import as_queue_errors
from nexus.queue.etcd.forms import unpack_or_raw
from nexus.queue.kafka_reader import KafkaReader
from nexus.queue.redis.importing import PATIENCE_S, Moved
from nexus.queue.redis.target import Outgoing, RedisTarget, lots_of
from nexus.queue.url import EtcdUrl

_AGAIN_S: Final = 0.3
_FOLLOW_S: Final = 0.2
_MANY_KEYS: Final = 500
# So many more are in Redis: messages, their bytes, and how many fewer are left.
Told = Callable[[int, int, int], None]


class Origin(Protocol):
    """Where an export takes messages from."""

    gone: int

    def open(self) -> None:
        """Find out how far Redis was filled; also after a break."""

    def left(self) -> int:
        """How many messages (or keys of etcd) are not in Redis yet."""

    def carry(self, stop: threading.Event, told: Told) -> None:
        """Carry over what is there now; returns early after `stop`."""


@dataclass(slots=True)
class Export:
    """One export. `stop` ends it in good order; `show` is told how far it is."""

    origin: Origin
    stop: threading.Event
    follow: bool = False
    show: Callable[[Moved], None] = lambda _: None
    patience_s: float = PATIENCE_S
    totals: Moved = field(default_factory=Moved)

    def run(self) -> Moved:
        """Until all that was there is in Redis (what comes meanwhile too, if it follows)."""
        self.origin.open()
        while not self._round():
            self.stop.wait(_FOLLOW_S)
        self.totals.stopped = self.stop.is_set()
        return self.totals

    def _round(self) -> bool:
        """Whether that was all."""
        try:
            self.totals.left = self.origin.left()
            self.origin.carry(self.stop, self._told)
            self.totals.problem = ""
        except QueueAway as away:
            self._outlast(away)
            return self.stop.is_set()
        return self.stop.is_set() or not self.follow

    def _told(self, messages: int, size: int, fewer: int) -> None:
        self.totals.moved += messages
        self.totals.bytes += size
        self.totals.left = max(0, (self.totals.left or 0) - fewer)
        self.show(self.totals)

    def _outlast(self, away: QueueAway) -> None:
        deadline = time.monotonic() + self.patience_s
        self.totals.problem = str(away)
        while not self.stop.is_set():
            self.show(self.totals)
            try:
                self.origin.open()
            except QueueAway:
                if not self.follow and time.monotonic() > deadline:
                    raise QueueAway(f"{away}; run it again: it goes on where it stopped") from away
                self.stop.wait(_AGAIN_S)
            else:
                return


class KafkaOrigin:
    """A topic. `group` is where to begin when Redis has no place yet; else at the beginning."""

    def __init__(self, reader: KafkaReader, target: RedisTarget, group: str = "") -> None:
        self._reader, self._target, self._group = reader, target, group
        self._places: dict[int, int | None] = {}
        self._starts: dict[int, int] = {}
        self.gone = 0

    def open(self) -> None:
        self._target.client.check()
        numbers = self._reader.partitions()
        self._places = {number: self._target.place(self._name(number)) for number in numbers}
        if self._group and None in self._places.values():
            self._starts = self._reader.committed(self._group)

    def left(self) -> int:
        bounds = self._reader.bounds()
        for number in bounds.keys() - self._places.keys():  # the topic has grown
            self._places[number] = self._target.place(self._name(number))
        return sum(
            end - max(first, self._next(number, first, end))
            for number, (first, end) in bounds.items()
        )

    def carry(self, stop: threading.Event, told: Told) -> None:
        for number, (first, end) in self._reader.bounds(list(self._places)).items():
            start = self._next(number, first, end)
            if start < first:
                self.gone += first - start
                start = first
            self._carry(number, start, end, stop, told)

    def _carry(self, number: int, start: int, end: int, stop: threading.Event, told: Told) -> None:
        for batch in self._reader.read(number, start, end):
            found = [Outgoing(m.value, m.key, m.headers, m.offset + 1) for m in batch]
            for lot in lots_of(found):
                if stop.is_set():
                    return
                self._put(number, lot, lot[-1].next)
                told(len(lot), sum(len(message.value) for message in lot), len(lot))
        if (self._places[number] or 0) < end:  # at its end are marks that are no messages
            self._put(number, [], end)

    def _put(self, number: int, lot: Sequence[Outgoing], after: int) -> None:
        self._target.put(self._name(number), self._places[number], lot, after)
        self._places[number] = after

    def _next(self, number: int, first: int, end: int) -> int:
        place = self._places[number]
        start = self._starts.get(number, first) if place is None else place
        if start > end:
            raise OffsetsMissing(number, start, end)
        return start

    def _name(self, number: int) -> bytes:
        return f"{self._reader.url} {self._group} {number}".encode()


class EtcdOrigin:
    """A queue in etcd, which is emptied. `close` when done."""

    def __init__(self, url: EtcdUrl, target: RedisTarget) -> None:
        self._url, self._target = url, target
        self.gone = 0
        with as_queue_errors(url):
            self._etcd = BlockingClient(url.address.config())

    def open(self) -> None:
        self._target.client.check()
        with as_queue_errors(self._url):
            collectors = Get(self._url.layout.metas("collectors"), count_only=True)
            if self._etcd.range(collectors).total:
                raise QueueError(
                    f"queue {self._url.place}: a collector reads it; stop it first, or both take"
                    " the same messages"
                )

    def left(self) -> int:
        with as_queue_errors(self._url):
            return self._etcd.range(Get(self._url.layout.messages, count_only=True)).total

    def carry(self, stop: threading.Event, told: Told) -> None:
        with as_queue_errors(self._url):
            try:
                self._etcd.run(lambda client: self._carry(client, _MANY_KEYS, stop, told))
            except ResponseTooLarge:  # some hold a thousand readings each
                self._etcd.run(lambda client: self._carry(client, KEPT_KEYS, stop, told))

    def close(self) -> None:
        self._etcd.close()

    async def _carry(self, client: Client, keys: int, stop: threading.Event, told: Told) -> None:
        marks: list[bytes] = []

        def keep(items: Sequence[KeyValue]) -> None:
            lots = [(b"%b@%d" % (i.key, i.mod_revision), _messages(i)) for i in items]
            marks[:] = [mark for mark, _ in lots]
            size = sum(len(item.value) for item in items)
            told(self._target.put_unseen(lots), size, len(items))

        pages: AsyncGenerator[Drained, None] = Drain(
            client, self._url.layout, keep, page_keys=keys
        ).messages(self._url.layout.messages)
        taken = 0
        async with aclosing(pages):
            async for drained in pages:
                if (
                    drained.taken.keys > taken
                ):  # else something came in between, and it is read again
                    taken = drained.taken.keys
                    self._target.forget(marks)
                if stop.is_set():
                    return


def _messages(item: KeyValue) -> list[Outgoing]:
    frames, _ = unpack_or_raw(item.value)
    return [Outgoing(frame.value, frame.key, frame.headers) for frame in frames]
