"""What a Kafka cluster says of a topic's partitions: which there are, and where they begin and end.

Each question is asked again until its time is up, for leaders move and brokers restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from nexus.queue.errors import QueueAway, QueueError, TopicMissing
from nexus.queue.kafka_client import HOPELESS, UNKNOWN
from nexus.queue.kafka_topics import reason
from nexus.queue.url import KafkaUrl

T = TypeVar("T")
_PAUSE_S: Final = 0.1
_LEAST_S: Final = 0.05
_LOOK_S: Final = 1.0


def partitions_of(consumer: Consumer, url: KafkaUrl, timeout_s: float) -> list[int]:
    """The topic's partitions, with or without a leader."""

    def ask(left_s: float) -> list[int]:
        return sorted(_topic(consumer, url, left_s).partitions)

    return _until(ask, url, timeout_s, HOPELESS | UNKNOWN)


def offsets_of(
    consumer: Consumer, url: KafkaUrl, partitions: Sequence[int], when: int, timeout_s: float
) -> dict[int, int]:
    """Of each partition the first offset at a time in ms (-1 where none is), one request a broker.

    OFFSET_BEGINNING and OFFSET_END are such times too.
    """
    found: dict[int, int] = {}

    def ask(left_s: float) -> dict[int, int]:
        missing = [TopicPartition(url.topic, p, when) for p in partitions if p not in found]
        answers = consumer.offsets_for_times(missing, timeout=left_s) if missing else ()
        found.update({a.partition: a.offset for a in answers if a.error is None})
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
        return found

    try:
        return _until(ask, url, timeout_s, HOPELESS)
    except QueueAway as away:
        missing = sorted(set(partitions) - found.keys())
        raise _silent(consumer, url, missing, min(timeout_s, _LOOK_S)) from away


def trouble(url: KafkaUrl, error: KafkaError, where: str = "") -> QueueError:
    """A client's error as ours: what is wrong and, where we know it, what to do."""
    if error.code() in UNKNOWN:
        what = "no such topic or partition" if where else "the topic does not exist"
        return TopicMissing(
            f"queue {url}: {where}{what}; a streamer makes the topic when it starts, or make it"
            f" with: nexus topics create {url.topic}"
        )
    kind = QueueError if error.code() in HOPELESS else QueueAway
    late = error.code() in (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE)
    what = "no broker answers in time" if late else reason(KafkaException(error))
    return kind(f"queue {url}: {where}{what}")


def _topic(consumer: Consumer, url: KafkaUrl, timeout_s: float) -> Any:
    topic = consumer.list_topics(url.topic, timeout=timeout_s).topics[url.topic]
    if topic.error is not None:
        raise KafkaException(topic.error)
    return topic


def _silent(
    consumer: Consumer, url: KafkaUrl, partitions: Sequence[int], within_s: float
) -> QueueError:
    """Why partitions do not answer: the client says many things of it, the cluster one."""
    try:
        known = _topic(consumer, url, within_s).partitions
    except KafkaException as failed:
        return trouble(url, failed.args[0])
    silent = partitions[0]
    if silent not in known:
        return trouble(url, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), f"partition {silent}: ")
    leader = known[silent].leader
    if leader < 0:
        return QueueAway(f"queue {url}: no broker leads partition {silent} now; is one down?")
    return QueueAway(
        f"queue {url}: broker {leader}, which leads partition {silent}, does not answer"
    )


def _until(ask: Callable[[float], T], url: KafkaUrl, timeout_s: float, final: frozenset[int]) -> T:
    deadline = time.monotonic() + timeout_s
    while True:
        left = deadline - time.monotonic()
        try:
            return ask(max(left, _LEAST_S))
        except KafkaException as failed:
            error = failed.args[0]
        if error.code() in final or time.monotonic() + _PAUSE_S >= deadline:
            raise trouble(url, error)
        time.sleep(_PAUSE_S)
