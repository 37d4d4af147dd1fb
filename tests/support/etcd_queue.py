"""A queue in etcd as a test fills it: keys where the test wants them, with or without a bell."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from nexus.etcd import Get, Keys, KeyValue, Put
from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.counts import Count, Totals, totals
from nexus.queue.etcd.layout import Layout, Slot
from nexus.queue.url import EtcdUrl, parse_queue_url

START_NS = 1_790_000_000_000_000_000


@dataclass
class TestQueue:
    """One queue under a prefix of its own. Message number n says `{"n": n}`."""

    __test__ = False
    etcd: BlockingClient
    endpoint: str
    prefix: str
    published: Count = field(default_factory=Count)
    numbers: count[int] = field(default_factory=count)
    slots: set[Slot] = field(default_factory=set)

    @property
    def address(self) -> str:
        return f"etcd://{self.endpoint}{self.prefix}"

    @property
    def url(self) -> EtcdUrl:
        url = parse_queue_url(self.address)
        assert isinstance(url, EtcdUrl)
        return url

    @property
    def layout(self) -> Layout:
        return Layout(self.prefix)

    @property
    def results(self) -> Keys:
        """Where tests store what messages led to."""
        return Keys.prefix(f"{self.prefix}.results/".encode())

    def key(self, number: int, slot: Slot, at_ns: int | None = None) -> bytes:
        when = START_NS + number * 1000 if at_ns is None else at_ns
        return self.layout.message(slot, when, "h1", str(number % 8), number)

    def publish(
        self, messages: int, slots: Sequence[Slot] = (Slot("c1", 0),), lease: int = 0
    ) -> list[bytes]:
        """So many messages, taking turns between the slots; their keys."""
        numbers = [next(self.numbers) for _ in range(messages)]
        keyed = [(n, self.key(n, slots[n % len(slots)])) for n in numbers]
        self.put([(key, b'{"n": %d}' % n) for n, key in keyed], slots, lease)
        return [key for _, key in keyed]

    def put(
        self, items: Sequence[tuple[bytes, bytes]], slots: Iterable[Slot] = (), lease: int = 0
    ) -> None:
        """Keys and values as given, as a publisher would put them: registered, counted, rung."""
        for slot in set(slots) - self.slots:
            self.etcd.put(self.layout.meta("slots", str(slot)), b"")
            self.slots.add(slot)
        for at in range(0, len(items), 100):
            some = items[at : at + 100]
            self.published = self.published.plus(Count.of([key for key, _ in some]))
            bell = Put(self.layout.meta("bells", "test", "0"), json.dumps(self._bell()).encode())
            self.etcd.txn(then=[*(Put(key, value, lease) for key, value in some), bell])

    def waiting(self) -> list[KeyValue]:
        return self.all(self.layout.messages)

    def all(self, keys: Keys) -> list[KeyValue]:
        return [item for page in self.etcd.scan(keys) for item in page.items]

    def stored(self) -> list[int]:
        """The numbers of the messages whose results are stored."""
        return sorted(json.loads(item.value)["n"] for item in self.all(self.results))

    def count(self, keys: Keys) -> int:
        return self.etcd.range(Get(keys, count_only=True)).total

    def totals(self) -> Totals:
        return self.etcd.run(lambda client: totals(client, self.layout))

    def _bell(self) -> dict[str, object]:
        return {**self.published._asdict(), "transaction": 1, "at": time.time_ns() // 1_000_000}
