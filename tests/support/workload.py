"""Idempotent producers and a reader that go on while the broker comes and goes, with a history.

Every message names its producer and its number, so the checker can tell lost from repeated, and a
reader that follows the tail shows that nobody saw what was later taken back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from math import inf
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from support.confluent import consumer_of, producer_of, watermarks
from support.history import UNKNOWN, History, Reads
from support.waiting import wait_until

OUTSTANDING_MAX = 400
DELIVERY_SECONDS = 120
STOP_SECONDS = 150.0
CATCH_UP_SECONDS = 0.05
READ_SECONDS = 180.0
PRODUCER = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 1,
    "batch.num.messages": 50,
    "delivery.timeout.ms": DELIVERY_SECONDS * 1000,
    # A request to one that stands still is sent again to whoever leads then.
    "socket.timeout.ms": 5000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "log_level": 0,  # that nobody answers is what is tested
}
FOLLOWER = {"reconnect.backoff.max.ms": 200, "log_level": 0}
# What librdkafka answers without having sent anything.
NEVER_SENT = {KafkaError._QUEUE_FULL, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


class Workload:
    """Producers in threads of their own, from `with` on until `stop`."""

    def __init__(
        self, bootstrap: str, topic: str, *, partitions: int, producers: int, pace: float = inf
    ) -> None:
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.history, self.reads = History(), Reads()
        self.acknowledged = 0
        self._pace = pace  # messages a second, of each producer
        # By partition: when the message was sent that was acknowledged last.
        self._flowed_at = [0.0] * partitions
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._producers = [self._thread(self._produce, number) for number in range(producers)]
        self._reader = self._thread(self._follow, 0)

    def __enter__(self) -> Self:
        for thread in (*self._producers, self._reader):
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def wait_acknowledged(self, more: int, *, within: float = 60.0) -> None:
        """Until this many more messages are acknowledged than now."""
        target = self.acknowledged + more

        def reached() -> bool:
            if self._failure is not None:
                raise self._failure
            return self.acknowledged >= target

        wait_until(reached, within=within, what=f"{more} more acknowledgements")

    def wait_flowing(
        self, partitions: Collection[int], *, since: float, within: float = 60.0
    ) -> None:
        """Until each of them has acknowledged a message that was sent after that moment."""

        def flowing() -> bool:
            if self._failure is not None:
                raise self._failure
            return all(self._flowed_at[one] > since for one in partitions)

        wait_until(flowing, within=within, what=f"writes in {sorted(partitions)}")

    def stop(self) -> None:
        """Send no more, wait for what is on its way; safe to call twice."""
        self._stop.set()
        for thread in (*self._producers, self._reader):
            if thread.ident is not None:
                thread.join(STOP_SECONDS)
                assert not thread.is_alive(), f"{thread.name} did not stop"
        if self._failure is not None:
            raise self._failure

    def read_back(self) -> Reads:
        """All that was seen on the way, and all that every partition holds now."""
        for partition in range(self.partitions):
            self._read_partition(partition)
        return self.reads

    def _thread(self, work: Callable[[int], None], number: int) -> threading.Thread:
        def guarded() -> None:
            try:
                work(number)
            except BaseException as failure:  # noqa: BLE001 - raised again where the test waits
                self._failure = failure

        return threading.Thread(target=guarded, name=f"{work.__name__}-{number}", daemon=True)

    def _produce(self, process: int) -> None:
        fatal: list[KafkaError] = []
        producer = producer_of(
            self.bootstrap, **PRODUCER, error_cb=lambda e: fatal.append(e) if e.fatal() else None
        )
        sequence, next_at = 0, time.monotonic()
        while not self._stop.is_set():
            assert not fatal, fatal
            ready = len(producer) < OUTSTANDING_MAX and time.monotonic() >= next_at
            if ready:
                self._send(producer, process, sequence)
                sequence += 1
                # What was not sent while nothing went on is not made up for.
                next_at = max(next_at + 1 / self._pace, time.monotonic() - CATCH_UP_SECONDS)
            producer.poll(0 if ready else 0.005)
        producer.flush(DELIVERY_SECONDS + 5)
        assert not fatal, fatal

    def _send(self, producer: Producer, process: int, sequence: int) -> None:
        partition = sequence // 10 % self.partitions
        sent_at = time.monotonic()

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                # What a later acknowledgement implies comes without a place.
                offset = message.offset()
                self.history.ok(process, sequence, partition, UNKNOWN if offset is None else offset)
                self.acknowledged += 1
                self._flowed_at[partition] = max(sent_at, self._flowed_at[partition])
            elif error.code() in NEVER_SENT:
                self.history.fail(process, sequence, partition)
            else:
                self.history.info(process, sequence, partition)

        self.history.invoke(process, sequence, partition)
        value = b"%d:%d" % (process, sequence)
        producer.produce(self.topic, value, partition=partition, on_delivery=report)

    def _follow(self, _: int) -> None:
        consumer = consumer_of(self.bootstrap, **FOLLOWER)
        try:
            where = [TopicPartition(self.topic, p, 0) for p in range(self.partitions)]
            consumer.assign(where)
            while not self._stop.is_set():
                self._note(consumer, 0.1)
        finally:
            consumer.close()

    def _read_partition(self, partition: int) -> None:
        (high,) = wait_until(lambda: self._end(partition), within=READ_SECONDS, what="an end")
        consumer = consumer_of(self.bootstrap)
        try:
            consumer.assign([TopicPartition(self.topic, partition, 0)])
            seen, deadline = 0, time.monotonic() + READ_SECONDS
            while seen < high:
                assert time.monotonic() < deadline, f"{seen} of {high} messages of {partition}"
                seen += self._note(consumer, 0.1)
        finally:
            consumer.close()

    def _end(self, partition: int) -> list[int]:
        """Where the partition ends now; nothing while its leader is changing."""
        try:
            _, high = watermarks(self.bootstrap, self.topic, partition)
        except KafkaException:
            return []
        return [high]

    def _note(self, consumer: Consumer, wait: float) -> int:
        good = [m for m in consumer.consume(200, timeout=wait) if m.error() is None]
        for message in good:
            process, _, sequence = (message.value() or b"").partition(b":")
            partition, offset = message.partition() or 0, message.offset() or 0
            self.reads.add(partition, offset, int(process), int(sequence))
        return len(good)
