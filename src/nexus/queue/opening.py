"""Opens the queue that an address names; whoever asks need not know its kind.

What a kind needs is loaded when it is first opened: nobody waits for the client of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus.queue.errors import QueueError
from nexus.queue.port import Publisher, Reader, Tail
from nexus.queue.publishing import PublisherOptions
from nexus.queue.url import (
    EtcdUrl,
    HttpUrl,
    PublishingUrl,
    parse_publishing_url,
    parse_queue_url,
)


def open_publisher(url: str | PublishingUrl, options: PublisherOptions | None = None) -> Publisher:
    """Publishes to the queue; it connects in the background."""
    queue = parse_publishing_url(url) if isinstance(url, str) else url
    if isinstance(queue, EtcdUrl):
        from nexus.queue.etcd.publisher import EtcdPublisher  # noqa: PLC0415

        return EtcdPublisher(queue, options)
    if isinstance(queue, HttpUrl):
        from nexus.queue.http_publisher import HttpPublisher  # noqa: PLC0415

        return HttpPublisher(queue, options)
    from nexus.queue.kafka_publisher import KafkaPublisher  # noqa: PLC0415

    return KafkaPublisher(queue, options)


def open_reader(
    url: str, *, client: Mapping[str, Any] | None = None, timeout_s: float = 30.0
) -> Reader:
    """A reader of offsets; it connects when it is first asked.

    `client` holds more settings for the client underneath; `timeout_s` is how long nothing may
    come before the queue counts as away. QueueError for a queue in etcd, which has no offsets.
    """
    from nexus.queue.kafka_reader import KafkaReader  # noqa: PLC0415

    queue = parse_queue_url(url)
    if isinstance(queue, EtcdUrl):
        raise QueueError(f"queue {queue}: messages in etcd have no offsets to read by")
    return KafkaReader(queue, client=client or {}, timeout_s=timeout_s)


def open_tail(url: str, *, client: Mapping[str, Any] | None = None) -> Tail:
    """The newest messages of the queue, from now on."""
    queue = parse_queue_url(url)
    if isinstance(queue, EtcdUrl):
        from nexus.queue.etcd.tail import EtcdTail  # noqa: PLC0415

        return EtcdTail(queue)
    from nexus.queue.kafka_tail import KafkaTail  # noqa: PLC0415

    return KafkaTail(queue, client=client or {})
