"""A batch of the client's messages: as messages and as columns it says the same."""

from __future__ import annotations

from confluent_kafka import Message

from nexus.queue.kafka_batch import KafkaBatch
from nexus.queue.port import Batch, Received

Headers = list[tuple[str, bytes]] | None
JSON: Headers = [("content-type", b"application/json")]
ARROW: Headers = [("content-type", b"arrow"), ("count", b"7")]


def message(offset: int, value: bytes | None, headers: Headers = None) -> Message:
    return Message(
        topic="t",
        partition=3,
        offset=offset,
        key=b"k%d" % offset,
        value=value,
        headers=headers,  # type: ignore[arg-type] # bytes are fine
        timestamp=(1, 1000 + offset),
    )


MESSAGES = [
    message(5, b"a", JSON),
    message(6, b"b", list(JSON or [])),
    message(9, b"c", ARROW),
    message(10, None),
    message(11, b"", JSON),
]
RECEIVED = [
    Received(3, 5, 1005, b"k5", b"a", (("content-type", b"application/json"),)),
    Received(3, 6, 1006, b"k6", b"b", (("content-type", b"application/json"),)),
    Received(3, 9, 1009, b"k9", b"c", (("content-type", b"arrow"), ("count", b"7"))),
    Received(3, 10, 1010, b"k10", b"", ()),
    Received(3, 11, 1011, b"k11", b"", (("content-type", b"application/json"),)),
]


def test_a_batch_is_a_sequence_of_messages() -> None:
    batch = KafkaBatch(MESSAGES)
    assert list(batch) == RECEIVED
    assert (len(batch), batch[2], batch[-1]) == (5, RECEIVED[2], RECEIVED[4])
    assert batch[1:3] == RECEIVED[1:3]


def test_the_columns_are_those_of_the_messages() -> None:
    fast, plain = KafkaBatch(MESSAGES), Batch(RECEIVED)
    assert fast.offsets() == plain.offsets() == [5, 6, 9, 10, 11]
    assert fast.values() == plain.values() == [b"a", b"b", b"c", b"", b""]
    for name in ("content-type", "count", "nothing"):
        assert fast.header(name) == plain.header(name)
    assert fast.header("count") == [None, None, b"7", None, None]


def test_of_a_header_given_twice_the_last_counts() -> None:
    twice: Headers = [("count", b"1"), ("count", b"2")]
    fast = KafkaBatch([message(0, b"", twice)])
    assert fast.header("count") == Batch(list(fast)).header("count") == [b"2"]


def test_neighbours_share_their_headers() -> None:
    first, second, *_ = KafkaBatch(MESSAGES)
    assert first.headers is second.headers
