"""Topics on a Kafka cluster: looked up without creating them by accident, created when missing."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from nexus.queue.errors import QueueAway

_BROKERS_CHOICE: Final = -1


def ensure_topics(
    admin: AdminClient, wanted: Mapping[str, int], *, timeout_s: float = 3.0
) -> dict[str, int]:
    """Each wanted topic with the partitions it has, after creating those that were missing.

    Where we may not create, a producer's own look-up creates the topic if the cluster does so.
    """
    known = _known(admin, timeout_s)
    missing = {name: count for name, count in wanted.items() if name not in known}
    if missing:
        _create(admin, missing, _BROKERS_CHOICE, timeout_s)
        known = _known(admin, timeout_s)
        for name in missing.keys() - known.keys():
            known |= _asked_for(admin, name, timeout_s)
    return {name: known[name] for name in wanted}


def largest_batch(admin: AdminClient, topic: str, default: int, *, timeout_s: float = 3.0) -> int:
    """The topic's max.message.bytes; the default where it is larger or we may not ask."""
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        (future,) = admin.describe_configs([asked], request_timeout=timeout_s).values()
        limit = int(future.result(timeout_s * 2)["max.message.bytes"].value)
    except (KafkaException, FutureTimeoutError, KeyError, TypeError, ValueError):
        return default
    return min(default, limit)


def _known(admin: AdminClient, timeout_s: float) -> dict[str, int]:
    """All topics: asking for one by name would create it with too few partitions."""
    return _counts(_listed(admin, timeout_s=timeout_s))


def _asked_for(admin: AdminClient, topic: str, timeout_s: float) -> dict[str, int]:
    counts = _counts(_listed(admin, topic, timeout_s=timeout_s))
    if not counts.get(topic):
        raise QueueAway(f"topic {topic} does not exist and cannot be created")
    return counts


def _listed(admin: AdminClient, topic: str | None = None, *, timeout_s: float) -> Any:
    try:
        if topic is None:
            return admin.list_topics(timeout=timeout_s)
        return admin.list_topics(topic, timeout=timeout_s)
    except KafkaException as error:
        raise QueueAway(reason(error)) from error


def _counts(metadata: Any) -> dict[str, int]:
    return {
        name: len(topic.partitions)
        for name, topic in metadata.topics.items()
        if topic.error is None and topic.partitions
    }


def _create(admin: AdminClient, missing: Mapping[str, int], factor: int, timeout_s: float) -> None:
    """Best effort: another streamer may be first, or we may not be allowed to."""
    topics = [NewTopic(name, count, factor) for name, count in missing.items()]
    try:
        futures = admin.create_topics(topics, request_timeout=timeout_s)
    except KafkaException:
        return
    refused = {}
    for name, future in futures.items():
        try:
            future.result(timeout_s * 2)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR:
                refused[name] = missing[name]
        except FutureTimeoutError:
            continue
    if refused and factor == _BROKERS_CHOICE:
        _create(admin, refused, 1, timeout_s)


def reason(error: KafkaException) -> str:
    """A client's error in a few words."""
    first = error.args[0] if error.args else error
    if not isinstance(first, KafkaError):
        return str(first)
    if first.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        return "no broker answers"
    return str(first.str()).removeprefix("Local: ")
