"""Publishes to a Kafka topic, ours or any: idempotent, acks=all, in order, until it is held.

A batch stays here until the queue holds it. When the client breaks for good (a topic deleted, a
broker that lost what it had), a new one is made and sends again, in order, what is not held.

A report for each of a hundred thousand small messages a second costs more than sending them. So
at first only the last message of a batch in each partition has one: the client promises no gaps
before it (`enable.gapless.guarantee`) or breaks. After a break, every message has one.

A refusal strikes a whole batch of the client's, good messages beside bad ones. So what was refused
is sent once more, one by one; what is refused then is refused for good.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import count
from operator import itemgetter
from queue import SimpleQueue
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from nexus.queue.errors import MessageRefused, QueueAway, QueueFull
from nexus.queue.kafka_topics import ensure_topics, largest_batch, reason
from nexus.queue.port import Headers, Message, OnSettled
from nexus.queue.publishing import PublisherOptions, PublisherStats
from nexus.queue.url import KafkaUrl

_POLL_S: Final = 0.1
_CLOSE_S: Final = 3.0
_BATCH_BYTES: Final = 1_000_000
_BATCH_FRAMING: Final = 200
_MESSAGE_BYTES_LEAST: Final = 1000  # what the client lets us say
_VALUE: Final = itemgetter(0)
_PARTITION: Final = itemgetter(4)
_RETRY_S: Final = (0.2, 0.5, 1.0, 2.0)
# What the queue says of a message itself. All else (a leader that moves, a topic that is gone,
# a right that is missing) can be put right, so the message waits.
_REFUSALS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
    }
)
_SUSPICIOUS: Final = _REFUSALS | {KafkaError._GAPLESS_GUARANTEE}
_FULL: Final = KafkaError(KafkaError._QUEUE_FULL)
# The client's own lines go to our log, for whoever wants to see them.
_QUIET: Final[Mapping[str, Any]] = {
    "logger": logging.getLogger("nexus.queue.client"),
    "log_level": 3,
    "log.connection.close": False,
}
_PROMPT: Final[Mapping[str, Any]] = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}
_DURABLE: Final[Mapping[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "message.timeout.ms": 0,  # for ever: giving up is the caller's to decide
    "retry.backoff.max.ms": 500,
    "topic.metadata.refresh.fast.interval.ms": 100,
    # A topic that is gone is ours to make again, with as many partitions as it should have.
    "allow.auto.create.topics": False,
    "topic.metadata.propagation.max.ms": 1000,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1 << 20,
}


class _Batch:
    """Messages that settle together. Its callback runs in the publisher's thread only."""

    __slots__ = (
        "_done",
        "_one_by_one",
        "error",
        "left",
        "messages",
        "on_settled",
        "refused",
        "size",
    )

    def __init__(self, messages: Sequence[Message], on_settled: OnSettled, done: Any) -> None:
        self.messages = messages
        self.on_settled = on_settled
        self.size = sum(map(len, map(_VALUE, messages)))
        self._done = done
        self.begin(len(messages))

    def begin(self, reports: int, *, one_by_one: bool = False) -> None:
        """It is sent (again), and so many reports will come."""
        self.left = reports
        self._one_by_one = one_by_one
        self.error: KafkaError | None = None
        self.refused: KafkaError | None = None

    def delivered(self, error: KafkaError | None, _: object) -> None:
        self.left -= 1
        if error is not None:
            self.fail(error, alone=self._one_by_one)
        if not self.left:
            self._done(self)

    def fail(self, error: KafkaError, *, alone: bool) -> None:
        """A message failed; `alone` if the reason can only be its own."""
        if alone and error.code() in _REFUSALS:
            self.refused = error
        else:
            self.error = error


class KafkaPublisher:
    """One topic and its dead-letter topic. Connects in the background; `close` when done."""

    def __init__(self, url: KafkaUrl, options: PublisherOptions | None = None) -> None:
        self.url = url
        self.options = options or PublisherOptions()
        self.stats = PublisherStats()
        self._lock = threading.Condition()
        self._pending: dict[int, _Batch] = {}
        self._next = self._messages_left = 0
        self._is_fatal = False
        self._is_sparse = self.options.sparse_reports
        self._one_by_one = False
        self._counts: dict[str, int] = {}
        self._producer: Producer | None = None
        self._unsent: SimpleQueue[_Batch] = SimpleQueue()  # one for each report that is ours
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def partitions(self) -> int:
        partitions = self._counts.get(self.url.topic)
        if partitions is None:
            raise QueueAway(f"queue {self.url}: {self.stats.problem}")
        return partitions

    def publish(self, messages: Sequence[Message], on_settled: OnSettled) -> None:
        if not messages:
            on_settled(None)
            return
        batch = _Batch(messages, on_settled, self._settled)
        with self._lock:
            if self._pending and self._has_no_room_for(batch):
                raise QueueFull(f"queue {self.url}: {self.stats.in_flight_bytes} bytes are unsent")
            self._pending[self._next] = batch
            self._next += 1
            self._messages_left += len(messages)
            self.stats.in_flight_bytes += batch.size
            if self._producer is not None:
                self._send(self._producer, batch)

    def flush(self, timeout_s: float) -> int:
        with self._lock:
            self._lock.wait_for(lambda: not self._pending, timeout_s)
            return self._messages_left

    def close(self) -> None:
        self._closed.set()
        # A client that still looks for its broker has nothing to lose, and may take seconds.
        self._thread.join(_CLOSE_S if self._producer is not None else _POLL_S)

    def _has_no_room_for(self, batch: _Batch) -> bool:
        return (
            self.stats.in_flight_bytes + batch.size > self.options.in_flight_bytes
            or self._messages_left + len(batch.messages) > self.options.in_flight_messages
        )

    def _run(self) -> None:
        attempt = 0
        while not self._closed.is_set():
            if self._producer is None:
                opened = self._open()
                attempt = 0 if opened else attempt + 1
                if not opened:
                    self._closed.wait(_RETRY_S[min(attempt, len(_RETRY_S)) - 1])
            elif self._poll(self._producer):
                self._closed.wait(_RETRY_S[0])
        self._drop()

    def _open(self) -> bool:
        """Find or make the topics, then a client; what is pending goes first, in order."""
        wanted = {
            self.url.topic: self.options.partitions,
            self.url.dead_letter_topic: self.options.dead_letter_partitions,
        }
        address = {"bootstrap.servers": self.url.bootstrap, **_QUIET, **_PROMPT}
        address |= self.options.client
        try:
            admin = AdminClient(address)
            self._counts = ensure_topics(admin, wanted)
            producer = self._client(address, largest_batch(admin, self.url.topic, _BATCH_BYTES))
        except (QueueAway, KafkaException) as error:
            self.stats.problem = str(error) if isinstance(error, QueueAway) else reason(error)
            return False
        with self._lock:
            self._producer = producer
            for batch in self._pending.values():
                self._send(producer, batch)
        self.stats.problem = ""
        return True

    def _client(self, address: Mapping[str, Any], topic_bytes: int) -> Producer:
        return Producer(
            {
                **_DURABLE,
                "enable.gapless.guarantee": self._is_sparse,
                "compression.type": self.options.compression,
                **({"batch.num.messages": 1} if self._one_by_one else {}),
                **_gathering(self.options, topic_bytes),
                "error_cb": self._on_error,
                **address,
            }
        )

    def _poll(self, producer: Producer) -> bool:
        """Serve what the client reports; True when the client had to be given up."""
        try:
            producer.poll(_POLL_S)
        except KafkaException as error:  # the client says by this that it will not go on
            self.stats.problem, self._is_fatal = reason(error), True
        while not self._unsent.empty():
            self._unsent.get().delivered(None, None)
        with self._lock:
            errors = [batch.error for batch in self._pending.values() if batch.error]
            is_through = self._one_by_one and not self._pending
        if not (errors or self._is_fatal or is_through):
            return False
        self._drop()
        self._is_sparse = False
        self._one_by_one = any(error.code() in _SUSPICIOUS for error in errors)
        self.stats.renewals += 1
        return True

    def _drop(self) -> None:
        """Forget the client with all that it still had: another sends it again."""
        with self._lock:
            producer, self._producer = self._producer, None
            self._is_fatal = False
        if producer is None:
            return
        producer.purge()
        deadline = time.monotonic() + 5
        while len(producer) and time.monotonic() < deadline:
            producer.poll(0.01)

    def _on_error(self, error: KafkaError) -> None:
        self.stats.problem = reason(KafkaException(error))
        self._is_fatal = self._is_fatal or error.fatal()

    def _send(self, producer: Producer, batch: _Batch) -> None:
        topic, dead = self.url.topic, self.url.dead_letter_topic
        partitions, delivered, produce = self._counts[topic], batch.delivered, producer.produce
        reported = _last_ones(batch.messages) if self._is_sparse else range(len(batch.messages))
        batch.begin(len(reported), one_by_one=self._one_by_one)
        last: Headers = ()
        listed: list[tuple[str, str | bytes | None]] = []
        for number, message in enumerate(batch.messages):
            value, key, headers, timestamp_ms, partition, is_dead = message
            if headers is not last:
                last, listed = headers, list(headers)
            try:
                produce(
                    dead if is_dead else topic,
                    value,
                    key,
                    -1 if partition is None or is_dead else partition % partitions,
                    delivered if number in reported else None,
                    timestamp=timestamp_ms,
                    headers=listed,
                )
            except (KafkaException, BufferError) as error:
                # The client does not even take it, so the report is for us to give.
                problem = error.args[0] if isinstance(error, KafkaException) else _FULL
                batch.fail(problem, alone=True)
                if number in reported:
                    self._unsent.put(batch)

    def _settled(self, batch: _Batch) -> None:
        """Every message of the batch has a report; one that can be sent again stays pending."""
        if batch.error is not None:
            return
        with self._lock:
            number = next(iter(self._pending))
            if self._pending[number] is not batch:
                number = next(n for n, b in self._pending.items() if b is batch)
            del self._pending[number]
            self._messages_left -= len(batch.messages)
            self.stats.in_flight_bytes -= batch.size
            self._lock.notify_all()
        self.stats.problem = ""
        self._count(batch)
        batch.on_settled(_refusal(batch.refused))

    def _count(self, batch: _Batch) -> None:
        if batch.refused is not None:
            self.stats.refused += len(batch.messages)
        else:
            self.stats.messages += len(batch.messages)
            self.stats.bytes += batch.size


def _gathering(options: PublisherOptions, topic_bytes: int) -> dict[str, Any]:
    """Batches that the topic takes: of one too large, good messages would be lost.

    The first message of a batch may be larger than the batch; the topic decides about it.
    """
    largest = max(topic_bytes - _BATCH_FRAMING, 1)
    return {
        "linger.ms": options.linger_ms,
        "batch.size": min(options.batch_bytes or largest, largest),
        "message.max.bytes": max(topic_bytes, _MESSAGE_BYTES_LEAST),
    }


def _last_ones(messages: Sequence[Message]) -> set[int]:
    """Which messages are the last to their partition; and all that choose it by their key."""
    last = dict(zip(map(_PARTITION, messages), count(), strict=False))
    if None in last:
        return {number for number, m in enumerate(messages) if m.partition is None} | {
            number for partition, number in last.items() if partition is not None
        }
    return set(last.values())


def _refusal(error: KafkaError | None) -> MessageRefused | None:
    return None if error is None else MessageRefused(reason(KafkaException(error)))
