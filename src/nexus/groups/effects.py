"""What a coordinator wants done: answers to give and records to make durable."""

from __future__ import annotations

from dataclasses import dataclass

from nexus.groups.results import Result

StoredRecord = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request that came with `token`."""

    token: object
    result: Result


@dataclass(frozen=True, slots=True)
class Store:
    """Append these records as one batch, in the order in which stores were given.

    Once they are durable, or cannot be, the coordinator is told with `stored(tag, ...)`.
    """

    records: tuple[StoredRecord, ...]
    tag: int


Effect = Reply | Store
Effects = list[Effect]
