"""What lies between two places in a queue: what can be read, and what is gone.

Offsets travel through Spark's checkpoint as `{"partition": offset}`. A partition that the start
does not name came later and is read from its first message, offset 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nexus.pipeline.errors import PipelineError
from nexus.pipeline.source.planning import Range
from nexus.queue.port import Bounds

Offsets = dict[int, int]


class MessagesGone(PipelineError):
    """Raised when messages were removed before they were read, and that is not to be skipped."""


class QueueShrank(PipelineError):
    """Raised when a queue ends before the place where reading should go on."""


class StartMoved(PipelineError):
    """Raised when a query's first batch is repeated, but its start was not kept."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is to be read, and what no longer can be."""

    ranges: tuple[Range, ...]
    gone: tuple[Range, ...]


def backlog(
    begin: Mapping[int, int], end: Mapping[int, int], bounds: Mapping[int, Bounds]
) -> Backlog:
    """What there is from one place to the other, in the partitions of `end`."""
    ranges: list[Range] = []
    gone: list[Range] = []
    for partition, last in sorted(end.items()):
        start = begin.get(partition, 0)
        if last < start:
            raise _start_moved(partition, start, last)
        if partition not in bounds or bounds[partition].end < last:
            raise _shrank(partition, last, bounds.get(partition))
        first = min(max(bounds[partition].start, start), last)
        if first > start:
            gone.append(Range(partition, start, first))
        if last > first:
            ranges.append(Range(partition, first, last))
    return Backlog(tuple(ranges), tuple(gone))


def to_json(offsets: Mapping[int, int]) -> dict[str, int]:
    """Offsets as Spark keeps them: in the same order each time, for it compares their text."""
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def from_json(said: Mapping[str, int]) -> Offsets:
    """Offsets as they came back from Spark."""
    return {int(partition): offset for partition, offset in said.items()}


def gone_fault(gone: Range) -> str:
    """What is said of messages that retention removed."""
    return f"offsets {gone.start} to {gone.end - 1} were removed by retention before they were read"


def refuse_gone(gone: Sequence[Range]) -> None:
    """Raise MessagesGone if anything is gone."""
    if gone:
        count = sum(r.messages for r in gone)
        raise MessagesGone(
            f"partition {gone[0].partition}: {gone_fault(gone[0])} ({count} messages in"
            f" {len(gone)} partitions); go on without them by on_gone=skip, or start again with"
            " a new checkpoint"
        )


def _shrank(partition: int, wanted: int, bound: Bounds | None) -> QueueShrank:
    found = f"ends at {bound.end}" if bound else "is not there"
    return QueueShrank(
        f"partition {partition} {found}, but reading should go on at {wanted}: the topic lost"
        " messages or was made anew; start again with a new checkpoint"
    )


def _start_moved(partition: int, start: int, last: int) -> StartMoved:
    return StartMoved(
        f"partition {partition}: a batch that ends at {last} is to be repeated, but the query's"
        f" start is now {start}; start again with a new checkpoint, and a start_file to keep it"
    )
