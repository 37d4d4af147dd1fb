"""Tells a Kafka cluster how far a group has come, or asks it, without being a member of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from nexus.queue.errors import QueueError
from nexus.queue.kafka_client import admin_of
from nexus.queue.kafka_offsets import trouble
from nexus.queue.url import KafkaUrl

_TRY_S: Final = 3.0
_PAUSE_S: Final = 0.1
_LEAST_S: Final = 0.05
# The cluster takes commits from outside only while a group has no members.
_HAS_MEMBERS: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.NON_EMPTY_GROUP,
    }
)


class KafkaCommitter:
    """Commits offsets of a topic under any group, one commit at a time, in the order of calls."""

    def __init__(self, url: KafkaUrl, client: Mapping[str, Any]) -> None:
        self._url = url
        self._client = client
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None

    def commit(self, group: str, offsets: Mapping[int, int], timeout_s: float) -> None:
        """Returns once the cluster holds them all."""
        places = [TopicPartition(self._url.topic, p, offset) for p, offset in offsets.items()]
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while True:
                left = max(deadline - time.monotonic(), _LEAST_S)
                error = self._try(ConsumerGroupTopicPartitions(group, places), min(left, _TRY_S))
                if error is None:
                    return
                self._admin = None  # another finds a broker that is back sooner
                if not _may_pass(error) or time.monotonic() + _PAUSE_S > deadline:
                    raise self._refusal(group, error)
                time.sleep(_PAUSE_S)

    def committed(self, group: str, timeout_s: float) -> dict[int, int]:
        """How far a group has come; a partition of which it never told is left out."""
        asked = ConsumerGroupTopicPartitions(group)
        admin = admin_of(self._url, self._client)
        try:
            futures = admin.list_consumer_group_offsets([asked], request_timeout=timeout_s)
            answer = futures[group].result(timeout_s + 1)
        except KafkaException as failed:
            raise trouble(self._url, failed.args[0], f"offsets of group {group}: ") from failed
        places = [p for p in answer.topic_partitions or () if p.topic == self._url.topic]
        return {place.partition: place.offset for place in places if place.offset >= 0}

    def close(self) -> None:
        self._admin = None

    def _try(self, wanted: ConsumerGroupTopicPartitions, within_s: float) -> KafkaError | None:
        if self._admin is None:
            self._admin = admin_of(self._url, self._client)
        try:
            asked = self._admin.alter_consumer_group_offsets([wanted], request_timeout=within_s)
            answer = asked[wanted.group_id].result(within_s + 1)
        except KafkaException as failed:
            error: KafkaError = failed.args[0]
            return error
        except FutureTimeoutError:
            return KafkaError(KafkaError._TIMED_OUT)
        return next((p.error for p in answer.topic_partitions if p.error is not None), None)

    def _refusal(self, group: str, error: KafkaError) -> QueueError:
        if error.code() in _HAS_MEMBERS:
            return QueueError(
                f"queue {self._url}: group {group} has members of its own, so its offsets are"
                " theirs to commit; choose another group"
            )
        return trouble(self._url, error, f"offsets of group {group}: ")


def _may_pass(error: KafkaError) -> bool:
    """Whether to try again may help."""
    gone = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    return error.retriable() or error.code() in gone
