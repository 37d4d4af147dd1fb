"""Opens the queue that an address names, for reading; whoever asks need not know its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus.queue.kafka_reader import KafkaReader
from nexus.queue.kafka_tail import KafkaTail
from nexus.queue.port import Reader, Tail
from nexus.queue.url import parse_queue_url


def open_reader(
    url: str, *, client: Mapping[str, Any] | None = None, timeout_s: float = 30.0
) -> Reader:
    """A reader of the queue; it connects when it is first asked.

    `client` holds more settings for the client underneath; `timeout_s` is how long nothing may
    come before the queue counts as away.
    """
    return KafkaReader(parse_queue_url(url), client=client or {}, timeout_s=timeout_s)


def open_tail(url: str, *, client: Mapping[str, Any] | None = None) -> Tail:
    """The newest messages of the queue, from now on."""
    return KafkaTail(parse_queue_url(url), client=client or {})
