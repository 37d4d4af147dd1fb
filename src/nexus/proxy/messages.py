"""Messages on their way to a partition, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nexus.wire.records import Header

# Kafka's default limit of a batch is 1 MB with its header.
BATCH_BYTES_MAX: Final = 900_000
RECORD_OVERHEAD_BYTES: Final = 32


class Message(NamedTuple):
    """What a client wants written."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = 0
    partition: int | None = None


class Written(NamedTuple):
    """Where a message went; an offset of -1 where nobody waited to learn it."""

    partition: int
    offset: int
    home: int | None = None

    @property
    def id(self) -> str | None:
        """The message's name in its topic."""
        return f"{self.partition}-{self.offset}" if self.offset >= 0 else None


@dataclass(slots=True, eq=False)
class Parcel:
    """Messages of one request for one partition, which stay together and in order."""

    messages: list[Message]
    deadline: float
    base_offset: asyncio.Future[int]
    size: int = 0
    is_sent: bool = False  # at least once: from then on nobody can take it back
    is_given_up: bool = False
    alone: bool = field(default=False)  # it, or one beside it, was refused

    def fail(self, error: Exception) -> None:
        if not self.base_offset.done():
            self.base_offset.set_exception(error)
            self.base_offset.exception()  # who asked may be gone; that is no fault


def chunks(messages: Iterable[Message]) -> Iterator[tuple[list[Message], int]]:
    """Messages in order, in lots that fit a batch, with their size."""
    lot: list[Message] = []
    size = beside = 0
    headers: tuple[Header, ...] | None = None
    for message in messages:
        value, key, own_headers, _, _ = message
        if own_headers is not headers:  # most have the same
            headers = own_headers
            beside = RECORD_OVERHEAD_BYTES + _header_bytes(headers)
        own = beside + len(value or b"") + len(key or b"")
        if lot and size + own > BATCH_BYTES_MAX:
            yield lot, size
            lot, size = [], 0
        lot.append(message)
        size += own
    if lot:
        yield lot, size


def _header_bytes(headers: tuple[Header, ...]) -> int:
    return sum(len(name) + len(value or b"") + 2 for name, value in headers)
