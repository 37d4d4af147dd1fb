"""What all our reading clients of a Kafka cluster have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from nexus.queue.errors import QueueError
from nexus.queue.kafka_topics import reason
from nexus.queue.url import KafkaUrl

T = TypeVar("T")
# The client's own lines go to our log, for whoever wants to see them; to nobody's screen.
_LOG: Final = logging.getLogger("nexus.queue.client")
_LOG.addHandler(logging.NullHandler())
_COMMON: Final[Mapping[str, Any]] = {
    "logger": _LOG,
    "log_level": 3,
    "log.connection.close": False,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
}
_READING: Final[Mapping[str, Any]] = {
    "retry.backoff.max.ms": 500,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "allow.auto.create.topics": False,
    "group.id": "nexus-reader",  # the client wants a name; nothing joins or commits under it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16 << 10,
    "max.partition.fetch.bytes": 4 << 20,
    "fetch.max.bytes": 16 << 20,
    # What is asked for is there, so no request need wait long; and a queue that was full is
    # filled again at once (the client's own choice is a second later).
    "fetch.wait.max.ms": 5,
    "fetch.queue.backoff.ms": 10,
    "fetch.error.backoff.ms": 50,
}
# The cluster knows no such topic or partition (yet).
UNKNOWN: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
# Nothing that waiting would put right.
HOPELESS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._INVALID_ARG,
    }
)


def consumer_of(
    url: KafkaUrl, client: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> Consumer:
    """A consumer that reads what it is told to; `client` are the user's settings and win."""
    return _made(Consumer, url, {**_COMMON, **_READING, **(own or {})}, client)


def admin_of(url: KafkaUrl, client: Mapping[str, Any]) -> AdminClient:
    """A client for what is said of groups."""
    return _made(AdminClient, url, _COMMON, client)


def _made(
    kind: Callable[[dict[str, Any]], T],
    url: KafkaUrl,
    ours: Mapping[str, Any],
    client: Mapping[str, Any],
) -> T:
    try:
        return kind({**ours, "bootstrap.servers": url.bootstrap, **client})
    except KafkaException as failed:
        raise QueueError(f"queue {url}: {reason(failed)}") from failed
