"""Finds damage: every batch of a log against its checksum, its neighbours and its place.

Offsets and epochs are not covered by a batch's checksum; that they follow from one batch to the
next is what shows damage to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nexus.log.files import FileSlice
from nexus.log.scan import batches
from nexus.log.segment import Segment
from nexus.wire.batch import BatchHeader, validate
from nexus.wire.errors import CorruptMessage


@dataclass(frozen=True, slots=True)
class Corruption:
    """Damage in a log: the file, the position in it, the offset that is affected, and what."""

    file: Path
    position: int
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.file} at {self.position} (offset {self.offset}): {self.what}"


@dataclass(slots=True)
class Chain:
    """What the next batch has to follow; up to `gaps_below` offsets may be left out."""

    expected: int
    gaps_below: int
    epoch: int = -1

    def missing(self, base_offset: int) -> bool:
        """Whether offsets that ought to be there lie before one."""
        return base_offset > self.expected and base_offset > self.gaps_below

    def fault(self, header: BatchHeader, batch: memoryview | None) -> str | None:
        """What is wrong with the next batch (its bytes are checked too, if given), or None."""
        base = header.base_offset
        if base < self.expected or self.missing(base):
            return f"offset {base} where {self.expected} should be"
        if header.leader_epoch < self.epoch:
            return f"leader epoch {header.leader_epoch} after {self.epoch}"
        if batch is not None:
            try:
                validate(batch, header, compacted=base < self.gaps_below)
            except CorruptMessage as error:
                return str(error)
        self.expected = header.next_offset
        self.epoch = header.leader_epoch
        return None


def verify_segments(
    segments: Sequence[tuple[Segment, FileSlice]], gaps_below: int
) -> Iterator[Corruption]:
    """Everything that is wrong in some segments, each given with what is to be read of it."""
    chain = Chain(segments[0][0].base_offset if segments else 0, gaps_below)
    for segment, data in segments:
        if chain.missing(segment.base_offset):
            what = f"offsets {chain.expected} to {segment.base_offset - 1} are missing"
            yield Corruption(segment.path, 0, chain.expected, what)
        chain.expected = max(segment.base_offset, chain.expected)
        yield from _verify_segment(segment, data, chain)


def _verify_segment(segment: Segment, data: FileSlice, chain: Chain) -> Iterator[Corruption]:
    at, before = 0, (0, chain.expected)
    for position, header, batch in batches(data.file, 0, data.size):
        here = position, chain.expected
        fault = chain.fault(header, batch)
        if fault is not None:
            # Of two epochs that do not follow, the first may be the wrong one.
            where = before if header.leader_epoch < chain.epoch else here
            yield Corruption(segment.path, *where, fault)
            # Go on as if the batch were in its place: one fault, one report.
            chain.expected += header.last_offset_delta + 1
        at, before = position + header.size, here
    if at < data.size:
        yield Corruption(segment.path, at, chain.expected, "what follows is not a whole batch")
