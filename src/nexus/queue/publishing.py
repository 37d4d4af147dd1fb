"""What publishers of every kind are told and tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PublisherOptions:
    """Bounds on what is on its way, and how the queue is made when it is missing.

    Each kind of queue heeds what means something to it.
    """

    partitions: int = 12
    in_flight_bytes: int = 32 << 20
    in_flight_messages: int = 400_000
    # Kafka
    dead_letter_partitions: int = 1
    linger_ms: int = 5
    batch_bytes: int | None = None  # as large as the topic takes
    sparse_reports: bool = False  # for many small messages, see kafka_publisher
    compression: str = "none"
    client: Mapping[str, Any] = field(default_factory=dict)
    # etcd
    cluster: str = "local-cluster"
    batch_messages: int = 10_000  # in one transaction, if the server takes so many
    ttl_s: int = 24 * 3600


@dataclass(slots=True)
class PublisherStats:
    """What a publisher has done; plain numbers that any thread may read."""

    messages: int = 0
    bytes: int = 0
    refused: int = 0
    renewals: int = 0
    in_flight_bytes: int = 0
    problem: str = "not connected yet"
