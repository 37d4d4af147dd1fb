"""How much of a backlog goes into the next batch, found by looking at a few of its messages.

Where even the largest messages would be within the limits, none are looked at. Elsewhere a few
messages at the start of each partition tell how far a batch might go, and a few in the middle and
at its end whether they were typical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from nexus.pipeline.source.messages import weigh
from nexus.pipeline.source.planning import UNKNOWN, Limits, Profile, Range, Weight, admit, profile
from nexus.queue.errors import OffsetsGone
from nexus.queue.port import Batch, Reader

LOOK: Final = 500  # messages that are looked at in one place, at most
_ENOUGH: Final = 100
_ENOUGH_BYTES: Final = 256 << 10
_ROUNDS: Final = 3

Look = Callable[[int, int, int], Weight]  # partition, offset, end


def admitted(
    backlog: Sequence[Range], limits: Limits, look: Look
) -> tuple[dict[int, int], dict[int, Weight]]:
    """The end of a batch by partition, and what its messages weigh where that was found out."""
    if limits.hold_any(sum(r.messages for r in backlog)):
        return {r.partition: r.end for r in backlog}, {}
    profiles = {r.partition: profile(r.start, look(*r)) for r in backlog}
    for _ in range(_ROUNDS):
        ends = admit(backlog, profiles, limits)
        places = list(_unseen(ends, profiles))
        if not places:
            break
        for partition, offset in places:
            weight = look(partition, offset, ends[partition])
            profiles[partition] = profiles[partition].with_seen(offset, weight)
    ends = admit(backlog, profiles, limits)
    return ends, {p: profiles[p].mean(end) for p, end in ends.items() if end > profiles[p].start}


def looker(reader: Reader) -> Look:
    """Looks at a few messages of a queue."""

    def look(partition: int, offset: int, end: int) -> Weight:
        batches = reader.read(partition, offset, min(end, offset + LOOK))
        try:
            return weigh(_first_few(batches))
        except OffsetsGone:
            return UNKNOWN  # whoever reads it will say so

    return look


def _first_few(batches: Iterator[Batch]) -> Iterator[Batch]:
    """As many as tell something; what comes at once is taken, no more is waited for."""
    count = size = 0
    for batch in batches:
        yield batch
        count, size = count + len(batch), size + sum(map(len, batch.values()))
        if count >= _ENOUGH or size >= _ENOUGH_BYTES:
            return


def _unseen(ends: Mapping[int, int], profiles: Mapping[int, Profile]) -> Iterator[tuple[int, int]]:
    """Places in the middle and at the end of what was chosen that nobody has looked at yet."""
    for partition, end in ends.items():
        known = profiles[partition]
        for place in (known.start + (end - known.start) // 2, end - LOOK):
            if all(abs(place - offset) > LOOK for offset, _ in known.seen) and place > known.start:
                yield partition, place
