"""Telemetry in a queue, for tests of whoever reads it: readings as messages of either kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from confluent_kafka import Producer

from nexus.telemetry.arrow_codec import split_for_messages
from nexus.telemetry.codec import ARROW_TYPE, JSON_TYPE
from nexus.telemetry.json_codec import encode_json
from support.confluent import producer_of

Headers = list[tuple[str, str | bytes | None]]
Sent = tuple[bytes | None, Headers]  # a message's value and headers


def arrow_messages(table: pa.Table, readings: int = 10_000) -> list[Sent]:
    """Readings as our streamer sends them: many in a message."""
    return [
        (value, [("content-type", ARROW_TYPE.encode()), ("count", str(count).encode())])
        for value, count in split_for_messages(table, readings=readings)
    ]


def json_messages(table: pa.Table) -> list[Sent]:
    """Readings as any client sends them: one in a message."""
    headers: Headers = [("content-type", JSON_TYPE.encode())]
    return [(value, headers) for value in encode_json(table)]


def publish(
    bootstrap: str,
    topic: str,
    messages: Iterable[Sent],
    partitions: Sequence[int] = (0,),
    timestamp_ms: int = 0,
) -> None:
    """Send messages to the partitions in turn, and see that all arrive."""
    failed: list[object] = []
    producer = producer_of(bootstrap, **{"linger.ms": 5})

    def keep(error: object, _: object) -> None:
        if error:
            failed.append(error)

    for number, (value, headers) in enumerate(messages):
        partition = partitions[number % len(partitions)]
        _wait_for_room(producer)
        producer.produce(
            topic, value, None, partition, keep, timestamp=timestamp_ms, headers=headers
        )
        producer.poll(0)
    assert producer.flush(30) == 0
    assert not failed


def _wait_for_room(producer: Producer) -> None:
    while len(producer) > 50_000:
        producer.poll(0.05)
