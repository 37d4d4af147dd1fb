"""Messages of a task, in groups that are decoded together; no group is larger than is good.

What a message holds is told from its headers alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Final

from nexus.pipeline.source.planning import Weight
from nexus.queue.port import Batch
from nexus.telemetry.arrow_codec import MAX_READINGS
from nexus.telemetry.codec import JSON_TYPE

GROUP_READINGS: Final = 65_536
GROUP_BYTES: Final = 32 << 20


@dataclass(slots=True)
class Group:
    """Messages by column; they may be of several partitions."""

    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    content_types: list[str | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Columns:
    """A batch of messages by column."""

    partition: int
    offsets: list[int]
    values: list[bytes]
    content_types: list[str | None]
    readings: list[int]

    def share(self) -> float:
        """What part of a group all of them fill."""
        return max(sum(self.readings) / GROUP_READINGS, sum(map(len, self.values)) / GROUP_BYTES)

    def shares(self) -> list[float]:
        """What part of a group they fill up to each of them; one more than there are messages."""
        sizes = map(len, self.values)
        each = (
            max(readings / GROUP_READINGS, size / GROUP_BYTES)
            for readings, size in zip(self.readings, sizes, strict=True)
        )
        return list(accumulate(each, initial=0.0))

    def into(self, group: Group, start: int, stop: int) -> None:
        """Add some of the messages to a group."""
        group.partitions += [self.partition] * (stop - start)
        group.offsets += self.offsets[start:stop]
        group.values += self.values[start:stop]
        group.content_types += self.content_types[start:stop]


def grouped(batches: Iterable[tuple[int, Batch]]) -> Iterator[Group]:
    """Batches by partition in groups of about GROUP_READINGS or GROUP_BYTES, one message at least.

    The order of the messages stays.
    """
    group, filled = Group(), 0.0
    for partition, batch in batches:
        columns = _columns(partition, batch)
        share = columns.share()
        if filled + share < 1:  # many small messages: no need to look at each
            columns.into(group, 0, len(batch))
            filled += share
            continue
        sums, at = columns.shares(), 0
        while at < len(batch):
            # The message that fills the group still belongs to it.
            stop = min(bisect_left(sums, sums[at] + 1 - filled, at + 1), len(batch))
            columns.into(group, at, stop)
            filled += sums[stop] - sums[at]
            at = stop
            if filled >= 1:
                yield group
                group, filled = Group(), 0.0
    if len(group):
        yield group


def weigh(batches: Iterable[Batch]) -> Weight:
    """What a message of these holds on average; nothing where there are none."""
    messages = readings = size = 0
    for batch in batches:
        messages += len(batch)
        readings += sum(_readings(batch, _types(batch)))
        size += sum(map(len, batch.values()))
    return Weight(readings / max(messages, 1), size / max(messages, 1))


def _columns(partition: int, batch: Batch) -> Columns:
    types = _types(batch)
    return Columns(partition, batch.offsets(), batch.values(), types, _readings(batch, types))


def _types(batch: Batch) -> list[str | None]:
    return [_text(said) for said in batch.header("content-type")]


def _readings(batch: Batch, types: list[str | None]) -> list[int]:
    """How many readings each message says it holds; of JSON it is one."""
    if types.count(JSON_TYPE) == len(types):
        return [1] * len(types)
    return [_count(said) for said in batch.header("count")]


@lru_cache(maxsize=20_000)
def _count(said: bytes | None) -> int:
    """A message that does not say holds one reading; no good one holds more than MAX_READINGS."""
    if said is None or not said.isdigit() or len(said) > 9:
        return 1
    return min(max(int(said), 1), MAX_READINGS)


@lru_cache(maxsize=1_000)
def _text(said: bytes | None) -> str | None:
    return None if said is None else said.decode(errors="replace")
