"""Work that runs in client processes of its own, so that a client's cost is not the broker's.

Messages begin with the time they were sent by the machine's monotonic clock, which processes of
one machine share.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from nexus.errors import NexusError

STAMP = struct.Struct("<q")
GO = "go"
_PROGRESS_S = 0.1


class BenchFailed(NexusError):
    """Raised when a measurement could not be completed."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one producer sends; rate 0 is as fast as it goes."""

    bootstrap: str
    topic: str
    messages: int
    size: int = 200
    acks: str = "all"
    compression: str = "none"
    rate: float = 0.0
    partitions: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


def gathering(linger_ms: float | None, batch_bytes: int | None) -> dict[str, Any]:
    """A producer's options for how it gathers messages; None leaves it to the client."""
    options = {"linger.ms": linger_ms, "batch.size": batch_bytes}
    return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Sent:
    """How one producer fared."""

    messages: int
    failed: int
    seconds: float


def producer_for(load: Load, on_failure: Callable[[], None]) -> Producer:
    """A producer with room for much under way, which tells of each message that failed."""

    def on_delivery(error: KafkaError | None, _: object) -> None:
        if error is not None:
            on_failure()

    return Producer(
        {
            "bootstrap.servers": load.bootstrap,
            "acks": load.acks,
            "compression.type": load.compression,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 512 << 10,
            "delivery.report.only.error": True,
            "on_delivery": on_delivery,
            "log_level": 0,
            **load.options,
        }
    )


def produce(load: Load) -> Sent:
    """Send the load and wait until all of it is acknowledged."""
    failures: list[None] = []
    producer = producer_for(load, lambda: failures.append(None))
    producer.list_topics(load.topic, timeout=10)
    began = time.perf_counter()
    send = _send_at_rate if load.rate else _send_flat_out
    send(producer, load)
    left = producer.flush(60)
    return Sent(load.messages - left, len(failures) + left, time.perf_counter() - began)


def _send_flat_out(producer: Producer, load: Load) -> None:
    value = bytes(load.size)
    topic, send, poll = load.topic, producer.produce, producer.poll
    for start in range(0, load.messages, 1000):
        for _ in range(min(1000, load.messages - start)):
            try:
                send(topic, value)
            except BufferError:
                poll(0.01)
                send(topic, value)
        poll(0)
        tell(start + 1000)


def _send_at_rate(producer: Producer, load: Load) -> None:
    padding = bytes(max(load.size - STAMP.size, 0))
    began = time.monotonic()
    for number in range(load.messages):
        due = began + number / load.rate
        if (left := due - time.monotonic()) > 0:
            time.sleep(left)
        stamp = STAMP.pack(time.monotonic_ns())
        producer.produce(load.topic, stamp + padding, partition=_partition(number, load))


def _partition(number: int, load: Load) -> int:
    return number % load.partitions if load.partitions else -1


@dataclass(frozen=True, slots=True)
class Read:
    """What one consumer is to read: so many messages of these partitions, from given offsets on.

    Without offsets it begins at 0; -1 is the end.
    """

    bootstrap: str
    topic: str
    partitions: tuple[int, ...]
    messages: int
    offsets: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Received:
    """How one consumer fared."""

    messages: int
    bytes: int
    seconds: float


def consumer_at(read: Read) -> Consumer:
    """A consumer that stands where it is to begin."""
    consumer = Consumer(
        {
            "bootstrap.servers": read.bootstrap,
            "group.id": "nexus-bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # librdkafka's default is to rest a second whenever it is ahead of its reader.
            "fetch.queue.backoff.ms": 5,
            "queued.min.messages": 1_000_000,
            "log_level": 0,
            **read.options,
        }
    )
    offsets = read.offsets or (0,) * len(read.partitions)
    places = zip(read.partitions, offsets, strict=True)
    consumer.assign([TopicPartition(read.topic, index, offset) for index, offset in places])
    return consumer


def ends(bootstrap: str, topic: str, partitions: int) -> tuple[int, ...]:
    """The offset that comes next in each partition."""
    consumer = consumer_at(Read(bootstrap, topic, (), 0))
    try:
        edges = [
            consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=10)
            for index in range(partitions)
        ]
    finally:
        consumer.close()
    return tuple(high for _, high in edges)


def consume(read: Read) -> Received:
    """Read the messages as fast as they come; the clock starts at the first one."""
    consumer = consumer_at(read)
    messages = size = 0
    began = first = time.perf_counter()
    try:
        while messages < read.messages:
            batch = consumer.consume(10_000, timeout=1.0)
            if not messages and batch:
                first = time.perf_counter()
            messages += len(batch)
            tell(messages)
            size += sum([len(message) for message in batch])
            if time.perf_counter() - began > 300:
                raise BenchFailed(f"only {messages} of {read.messages} messages came in 300 s")
    finally:
        consumer.close()
    return Received(messages, size, time.perf_counter() - first)


def in_processes(
    work: Callable[[Any], Any],
    inputs: list[Any],
    timeout: float = 600,
    opened: Callable[[Any], Any] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> list[Any]:
    """Run `work` on each input in a process of its own; all begin together.

    `opened` makes of an input what is worked on, before any of them begins. `on_progress` hears a
    few times a second how many messages the processes have told of.
    """
    context = get_context("spawn")
    told = context.RawArray("q", len(inputs))
    pipes, processes = [], []
    for number, one in enumerate(inputs):
        mine, theirs = context.Pipe()
        arguments = (theirs, work, one, opened, (told, number))
        process = context.Process(target=_child, args=arguments, daemon=True)
        process.start()
        theirs.close()
        pipes.append(mine)
        processes.append(process)
    try:
        for pipe in pipes:
            _receive(pipe, timeout)
        for pipe in pipes:
            pipe.send(GO)
        if on_progress is not None:
            _watch(pipes, told, on_progress, timeout)
        return [_receive(pipe, timeout) for pipe in pipes]
    finally:
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()


def tell(messages: int) -> None:
    """From a client process to the one that waits for it: so many so far."""
    if _telling is not None:
        counts, number = _telling
        counts[number] = messages


_telling: tuple[Any, int] | None = None


def _watch(
    pipes: list[Pipe], told: Any, on_progress: Callable[[int], None], timeout: float
) -> None:
    """Until every process has something to say, or has ended."""
    deadline = time.monotonic() + timeout
    while not all(pipe.poll(0) for pipe in pipes) and time.monotonic() < deadline:
        on_progress(sum(told))
        time.sleep(_PROGRESS_S)
    on_progress(sum(told))


def _child(
    pipe: Pipe,
    work: Callable[[Any], Any],
    one: Any,
    opened: Callable[[Any], Any] | None,
    telling: tuple[Any, int],
) -> None:
    global _telling  # noqa: PLW0603 - a process has one work, and it may be deep inside
    _telling = telling
    try:
        ready = opened(one) if opened else one
        pipe.send(None)
        pipe.recv()
        pipe.send(work(ready))
    except Exception as error:  # noqa: BLE001 - told to the parent, which raises it
        pipe.send(BenchFailed(f"{type(error).__name__}: {error}"))


def _receive(pipe: Pipe, timeout: float) -> Any:
    if not pipe.poll(timeout):
        raise BenchFailed(f"a client process gave no result within {timeout:.0f} s")
    result = pipe.recv()
    if isinstance(result, BenchFailed):
        raise result
    return result
