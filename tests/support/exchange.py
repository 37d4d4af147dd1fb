"""Sending and reading the same messages with each of the four clients that tests drive.

Every client has one function to send a list to partition 0 and one to read partition 0 from its
start, over one plain message type, so that any sender can be checked against any reader.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from support.confluent import deliver, error_names, producer_of, read

WITHIN = 20.0
NO_COMPRESSION = "none"


class Item(NamedTuple):
    """A message as every client can say it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


Send = Callable[[str, str, list[Item], str], None]
Read = Callable[[str, str, int], list[Item]]


def confluent_send(bootstrap: str, topic: str, items: list[Item], codec: str) -> None:
    producer = producer_of(bootstrap, **{"compression.type": codec, "linger.ms": 20})
    for item in items:
        producer.produce(topic, item.value, item.key, 0, headers=list(item.headers))
    assert error_names(deliver(producer, topic, [])) == set()


def confluent_read(bootstrap: str, topic: str, count: int) -> list[Item]:
    return [
        Item(message.key(), message.value(), tuple(message.headers() or ()))  # type: ignore[arg-type]
        for message in read(bootstrap, topic, count, within=WITHIN)
    ]


def kafka_python_send(bootstrap: str, topic: str, items: list[Item], codec: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == NO_COMPRESSION else codec,
        linger_ms=20,
    )
    try:
        sent = [
            producer.send(topic, item.value, item.key, list(item.headers), partition=0)
            for item in items
        ]
        for each in sent:
            each.get(timeout=WITHIN)
    finally:
        producer.close(timeout=WITHIN)


def kafka_python_read(bootstrap: str, topic: str, count: int) -> list[Item]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=100)
    items: list[Item] = []
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        deadline = time.monotonic() + WITHIN
        while len(items) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=200).values():
                items += [Item(r.key, r.value, tuple(r.headers)) for r in records]
    finally:
        consumer.close()
    return items


def aiokafka_send(bootstrap: str, topic: str, items: list[Item], codec: str) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == NO_COMPRESSION else codec,
            linger_ms=20,
            acks="all",
        )
        await producer.start()
        try:
            sent = [
                await producer.send(topic, item.value, item.key, 0, headers=list(item.headers))
                for item in items
            ]
            await asyncio.wait_for(asyncio.gather(*sent), WITHIN)
        finally:
            await producer.stop()

    asyncio.run(send())


def aiokafka_read(bootstrap: str, topic: str, count: int) -> list[Item]:
    async def read_all() -> list[Item]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=100)
        await consumer.start()
        items: list[Item] = []
        try:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            deadline = time.monotonic() + WITHIN
            while len(items) < count and time.monotonic() < deadline:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    items += [Item(r.key, r.value, tuple(r.headers)) for r in records]
        finally:
            await consumer.stop()
        return items

    return asyncio.run(read_all())


def kcat(bootstrap: str, *words: str, stdin: bytes = b"") -> bytes:
    """Run kcat; its standard output. A status other than 0 fails the test with what it said."""
    command = ["kcat", "-b", bootstrap, "-m", "10", *words]
    done = subprocess.run(
        command, input=stdin, capture_output=True, timeout=WITHIN + 10, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def kcat_send(bootstrap: str, topic: str, items: list[Item], codec: str) -> None:
    """kcat gives every message of a run the same headers: those of the first."""
    lines = b"".join((i.key or b"") + b"|" + (i.value or b"") + b"\n" for i in items)
    headers = [
        word for key, value in items[0].headers for word in ("-H", f"{key}={value.decode()}")
    ]
    compress = [] if codec == NO_COMPRESSION else ["-z", codec]
    where = ["-P", "-t", topic, "-p", "0", "-K", "|", "-Z", "-X", "linger.ms=20"]
    kcat(bootstrap, *where, *compress, *headers, stdin=lines)


def kcat_read(bootstrap: str, topic: str, count: int) -> list[Item]:
    where = ["-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count), "-e", "-q", "-J"]
    output = kcat(bootstrap, *where, "-X", "fetch.wait.max.ms=100")
    return [_kcat_item(json.loads(line)) for line in output.splitlines()]


def _kcat_item(line: dict[str, object]) -> Item:
    flat = line.get("headers") or []
    assert isinstance(flat, list)
    headers = tuple((flat[i], str(flat[i + 1]).encode()) for i in range(0, len(flat), 2))
    return Item(_encoded(line.get("key")), _encoded(line.get("payload")), headers)


def _encoded(text: object) -> bytes | None:
    return None if text is None else str(text).encode()


SENDERS: dict[str, Send] = {
    "confluent": confluent_send,
    "kafka-python": kafka_python_send,
    "aiokafka": aiokafka_send,
    "kcat": kcat_send,
}
READERS: dict[str, Read] = {
    "confluent": confluent_read,
    "kafka-python": kafka_python_read,
    "aiokafka": aiokafka_read,
    "kcat": kcat_read,
}
