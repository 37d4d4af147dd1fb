"""Publishers of numbered messages to a queue in etcd, and what is in the queue then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import orjson

from nexus.etcd import EtcdConfig, KeyValue
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import MessageRefused, QueueFull
from nexus.queue.etcd.counts import Totals, totals
from nexus.queue.etcd.forms import unpack
from nexus.queue.etcd.layout import Layout, Slot
from nexus.queue.etcd.publisher import EtcdPublisher
from nexus.queue.port import Headers, Message
from nexus.queue.publishing import PublisherOptions
from nexus.queue.url import EtcdUrl, parse_queue_url

JSON: Headers = (("content-type", b"application/json"),)
PARTITIONS = 4


def numbered(numbers: Iterable[int], *, size: int = 0, headers: Headers = JSON) -> list[Message]:
    """Message n says so, of GPU n % 8, for partition n % 4."""
    return [
        Message(
            orjson.dumps(
                {"n": n, "hostname": f"h{n % 8 // 4}", "gpu_id": str(n % 8), "pad": "x" * size}
            ),
            f"GPU-{n % 8}".encode(),
            headers,
            partition=n % PARTITIONS,
        )
        for n in numbers
    ]


@dataclass
class Sender:
    """A publisher and what became of its batches."""

    url: EtcdUrl
    options: PublisherOptions
    publisher: EtcdPublisher = field(init=False)
    outcomes: list[MessageRefused | None] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.publisher = EtcdPublisher(self.url, self.options)

    def send(self, numbers: Sequence[int], *, size: int = 0) -> None:
        def settled(refused: MessageRefused | None) -> None:
            with self._changed:
                self.outcomes.append(refused)
                if refused is None:
                    self.acknowledged.update(numbers)
                self._changed.notify_all()

        self.publisher.publish(numbered(numbers, size=size), settled)

    def wait(self, batches: int, within: float = 30.0) -> list[MessageRefused | None]:
        """Until so many batches are settled."""
        with self._changed:
            done = self._changed.wait_for(lambda: len(self.outcomes) >= batches, within)
            assert done, f"{len(self.outcomes)} of {batches}: {self.publisher.stats}"
            return list(self.outcomes)

    def keep_sending(self, until: Callable[[], bool], *, batch: int = 20, most: int = 4) -> int:
        """Batch after batch, `most` of them at a time, until told to end; how many numbers."""
        sent = 0
        while not until():
            if sent // batch - len(self.outcomes) >= most:
                time.sleep(0.002)
                continue
            try:
                self.send(range(sent, sent + batch))
            except QueueFull:
                time.sleep(0.01)
                continue
            sent += batch
        self.wait(sent // batch)
        return sent


@dataclass
class Contents:
    """What a queue in etcd holds."""

    etcd: BlockingClient
    layout: Layout

    def items(self, slot: Slot | None = None) -> list[KeyValue]:
        keys = self.layout.messages if slot is None else self.layout.slot(slot)
        return [item for page in self.etcd.scan(keys) for item in page.items]

    def numbers(self, slot: Slot | None = None) -> list[int]:
        """Those in the messages, in the order of their keys."""
        frames = [frame for item in self.items(slot) for frame in unpack(item.value)]
        return [orjson.loads(frame.value)["n"] for frame in frames]

    def put_again(self) -> list[bytes]:
        """Keys that were put more than once: whoever was faster would have had them twice."""
        return [item.key for item in self.items() if item.version > 1]

    def totals(self) -> Totals:
        return self.etcd.run(lambda client: totals(client, self.layout))


def etcd_url(text: str) -> EtcdUrl:
    url = parse_queue_url(text)
    assert isinstance(url, EtcdUrl)
    return url


def contents_of(config: EtcdConfig, url: EtcdUrl) -> Contents:
    return Contents(BlockingClient(config), url.layout)
