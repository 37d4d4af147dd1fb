"""What the streamer asks of a source: blocks of readings, and where to go on after each.

A source reads; it does not restamp, loop, pace, encode or publish, and it never asks how many
streamers there are: it gives its share (`Shard.owns`) of files, endpoints or hosts.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]

BLOCK_ROWS_MAX: Final = 131_072


@dataclass(frozen=True, slots=True)
class Position:
    """Where to go on in one stream (a file, an endpoint); `state` is JSON and the source's own.

    It is kept on disk and handed back as it was, maybe to a newer version and with the file
    changed meanwhile: what it needs to notice that (a fingerprint) belongs in the state.
    """

    stream: str
    state: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that is no reading; it goes to the dead-letter topic as it was."""

    reason: str  # a few words from a small, fixed set ("value is not a number"): it is counted by
    where: str  # "file.csv:123"
    raw: bytes


@dataclass(slots=True)
class Block:
    """Up to `BLOCK_ROWS_MAX` readings of one stream, in its order.

    `table` has the columns of `nexus.telemetry.reading.SOURCE_SCHEMA` (see `source_table`), text
    plain or dictionary-encoded. The streamer stamps `ingested`, and `cluster` where it is empty;
    both may be left out. A block may have no rows (then only the position and what was rejected
    count). A source without a place to go back to gives no position.
    """

    table: pa.Table
    position: Position | None = None
    rejected: list[Rejected] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` equal shares of a source's files, endpoints or hosts; index from 0."""

    index: int = 0
    count: int = 1

    def owns(self, name: str) -> bool:
        """Whether this share has the file, endpoint or host; exactly one share says yes."""
        return zlib.crc32(name.encode("utf-8", "surrogateescape")) % self.count == self.index

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the command line says that a source may care for."""

    shard: Shard = Shard()
    interval_s: float = 3.0  # between two scrapes, samples or ticks of a live source
    timeout_s: float = 5.0  # of one scrape
    follow: bool = False  # wait for files to grow instead of ending
    block_rows: int = 65_536  # about how many rows a block has, at most BLOCK_ROWS_MAX


class Source(Protocol):
    """A place that readings come from."""

    @property
    def live(self) -> bool:
        """True when it cannot wait (a scrape, a sample): what has no room is counted and lost.

        A source that is not live is asked for its next block only when there is room.
        """

    def describe(self) -> str:
        """A few words for a log line: "12 CSV files in /data"."""

    def blocks(self, start: Mapping[str, Position]) -> AsyncIterator[Block]:
        """Blocks until the source ends (live ones: until closed or cancelled).

        `start` has the last position of each stream that has one; an empty mapping is the
        beginning. After the end it may be called again: a loop's next pass. Slow work belongs
        in a thread; a wait must be cancellable.
        """

    def size_hint(self) -> int | None:
        """Bytes to read in one pass, where it is known: for the progress display."""

    async def close(self) -> None:
        """Release what is held; safe to call twice."""
