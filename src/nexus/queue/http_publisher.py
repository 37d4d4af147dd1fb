"""Publishes through a proxy: for where nothing but HTTP gets through.

One batch is on its way at a time, so order is kept; each has a key of its own under which it may
be sent again. What was taken is sent until a proxy has it or refuses it for good.
"""

from __future__ import annotations

import threading
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from uuid import uuid4

from nexus.client import Client, ProxyAway, ProxyRefused
from nexus.queue.errors import MessageRefused, QueueAway, QueueError, QueueFull
from nexus.queue.port import Message, OnSettled
from nexus.queue.publishing import PublisherOptions, PublisherStats
from nexus.queue.url import HttpUrl

_TRY_S: Final = 30.0
_AGAIN_S: Final = 0.5
_REQUEST_BYTES: Final = 8 << 20  # proxies take 16 MB; base64 adds a third
_CLOSE_S: Final = 3.0


class _Batch:
    def __init__(self, messages: Sequence[Message], on_settled: OnSettled) -> None:
        self.messages = messages
        self.on_settled = on_settled
        self.size = sum(len(message.value) for message in messages)


class HttpPublisher:
    """One topic behind a proxy and its dead letters. `close` when done."""

    def __init__(self, url: HttpUrl, options: PublisherOptions | None = None) -> None:
        self.url = url
        self.options = options or PublisherOptions()
        self.stats = PublisherStats()
        self._client = Client(url.base, timeout_s=_TRY_S)
        self._partitions: int | None = None
        self._lock = threading.Condition()
        self._waiting: deque[_Batch] = deque()  # the first one is on its way
        self._messages_left = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def partitions(self) -> int:
        if self._partitions is None:
            raise QueueAway(f"queue {self.url}: {self.stats.problem}")
        return self._partitions

    def publish(self, messages: Sequence[Message], on_settled: OnSettled) -> None:
        if not messages:
            on_settled(None)
            return
        batch = _Batch(messages, on_settled)
        with self._lock:
            if self._closed.is_set():
                raise QueueError(f"queue {self.url}: the publisher is closed")
            self._check_room(batch)
            self._waiting.append(batch)
            self._messages_left += len(messages)
            self.stats.in_flight_bytes += batch.size
            self._lock.notify_all()

    def flush(self, timeout_s: float) -> int:
        with self._lock:
            self._lock.wait_for(lambda: not self._waiting, timeout_s)
            return self._messages_left

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._lock.notify_all()
        self._client.close()
        self._thread.join(_CLOSE_S)

    def _check_room(self, batch: _Batch) -> None:
        unsent = self.stats.in_flight_bytes
        if self._waiting and (
            unsent + batch.size > self.options.in_flight_bytes
            or self._messages_left + len(batch.messages) > self.options.in_flight_messages
        ):
            raise QueueFull(f"queue {self.url}: {unsent} bytes are unsent")

    def _run(self) -> None:
        self._until_done(self._find_topic)
        while (batch := self._next()) is not None:
            refused = self._send(batch)
            with self._lock:
                if self._closed.is_set():
                    return
                self._waiting.popleft()
                self._messages_left -= len(batch.messages)
                self.stats.in_flight_bytes -= batch.size
                self._lock.notify_all()
            batch.on_settled(refused)

    def _next(self) -> _Batch | None:
        with self._lock:
            self._lock.wait_for(lambda: self._waiting or self._closed.is_set())
            return None if self._closed.is_set() else self._waiting[0]

    def _find_topic(self) -> None:
        self._partitions = self._client.ensure_topic(self.url.topic, self.options.partitions)

    def _send(self, batch: _Batch) -> MessageRefused | None:
        refused: MessageRefused | None = None
        for is_dead in (False, True):
            topic = self.url.dead_letter_topic if is_dead else self.url.topic
            for lot in _lots([m for m in batch.messages if m.dead is is_dead]):
                try:
                    self._until_done(partial(self._post, topic, lot, uuid4().hex))
                except ProxyRefused as error:
                    self.stats.refused += len(lot)
                    refused = MessageRefused(f"queue {self.url}: {error}")
        return refused

    def _post(self, topic: str, lot: list[Message], key: str) -> None:
        items = [_item(message) for message in lot]
        self._client.publish_many(topic, items, idempotency_key=key)
        self.stats.messages += len(lot)
        self.stats.bytes += sum(len(message.value) for message in lot)

    def _until_done(self, work: Callable[[], None]) -> None:
        while not self._closed.is_set():
            try:
                work()
            except ProxyAway as error:
                self.stats.problem = str(error)
                self._closed.wait(_AGAIN_S)
            else:
                self.stats.problem = ""
                return


def _lots(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages in order, in lots that a proxy takes at once."""
    lots: list[list[Message]] = []
    size = 0
    for message in messages:
        if not lots or size + len(message.value) > _REQUEST_BYTES:
            lots.append([])
            size = 0
        lots[-1].append(message)
        size += len(message.value)
    return lots


def _item(message: Message) -> dict[str, Any]:
    item: dict[str, Any] = {
        "payload_base64": b64encode(message.value).decode(),
        "headers": {name: value.decode("utf-8", "replace") for name, value in message.headers},
    }
    if message.key is not None:
        item["key"] = message.key.decode("utf-8", "replace")
    if message.timestamp_ms:
        item["timestamp"] = message.timestamp_ms
    if message.partition is not None:
        item["partition"] = message.partition
    return item
