"""Brings a partition's log back after a stop.

After a clean one no data is read. After any other, what lies beyond the recovery point is checked
batch by batch: a torn tail is cut, indexes and producers are made up for, and the tail is synced
before it counts. Damage below that point is reported and left where it is, and so is what follows
it: a sound copy may come from another broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nexus.log.config import LogConfig
from nexus.log.epochs import LeaderEpochs
from nexus.log.files import sync_directory
from nexus.log.layout import START_FILE, UNCHECKED_FILE, Listing, list_partition, read_offset
from nexus.log.producers import Producers, Snapshot
from nexus.log.scan import batches, headers, next_batch
from nexus.log.segment import Segment
from nexus.log.snapshots import newest_snapshot, remove_snapshots
from nexus.log.swap import finish_swap, read_cleaner
from nexus.log.verify import Chain, Corruption
from nexus.wire.batch import BatchHeader

_log: Final = logging.getLogger(__name__)
_NOT_WHOLE: Final = "what follows is not a whole batch"


@dataclass(slots=True)
class Recovered:
    """A log as it was found, ready to go on; everything in it is on disk."""

    segments: list[Segment]
    start_offset: int
    end_offset: int
    epochs: LeaderEpochs
    producers: Producers
    gaps_below: int = 0
    snapshot_offset: int = -1
    damage: list[Corruption] = field(default_factory=list)
    new_names: bool = False
    kept_all: bool = True  # whether nothing was cut off that may have been acknowledged


@dataclass(frozen=True, slots=True)
class Request:
    """How to recover: nothing before `checked_to` needs its checksums looked at again.

    Where there is a `limit`, the log is cut there.
    """

    directory: Path
    config: LogConfig
    checked_to: int | None
    clean: bool
    now_ms: Callable[[], int]
    limit: int | None = None


def recover(request: Request) -> Recovered:
    """Open what is in a partition's directory; raises OSError."""
    directory = request.directory
    finish_swap(directory)
    listing = list_partition(directory)
    snapshot = newest_snapshot(directory, listing.snapshots, request.limit)
    if not listing.segments:
        return _begin(request, read_offset(directory, START_FILE) or 0)
    found = None
    if request.clean and snapshot is not None:
        found = _take_as_closed(request, listing, snapshot)
    if found is None:
        found = _Scan(request, listing, snapshot).run()
    start = read_offset(directory, START_FILE) or 0
    found.start_offset = min(max(start, found.segments[0].base_offset), found.end_offset)
    found.segments[-1].created_ms = _created_ms(request, snapshot, found.segments[-1])
    if not found.epochs.entries:
        _learn_epochs(found)
    return found


def _begin(request: Request, base_offset: int) -> Recovered:
    """A log without data: new, or all of it was deleted."""
    if request.limit is not None:
        base_offset = max(base_offset, request.limit)
    directory = request.directory
    # Nothing can be known of a log that lost its data: not its producers, not its epochs.
    remove_snapshots(directory, above=-1)
    segment = Segment.create(directory, base_offset, request.config)
    epochs = LeaderEpochs.load(directory)
    epochs.cut_end(base_offset)
    return Recovered([segment], base_offset, base_offset, epochs, Producers(), new_names=True)


def _created_ms(request: Request, snapshot: Snapshot | None, segment: Segment) -> int:
    if snapshot is not None and snapshot.segment == segment.base_offset:
        return snapshot.segment_created_ms
    return request.now_ms()


def _segments(request: Request, listing: Listing) -> list[Segment]:
    return [
        Segment(request.directory, base, size, request.config)
        for base, size in sorted(listing.segments.items())
    ]


def _take_as_closed(request: Request, listing: Listing, snapshot: Snapshot) -> Recovered | None:
    """The log as it was closed, unless something does not fit."""
    segments = _segments(request, listing)
    last = segments[-1]
    if (snapshot.segment, snapshot.closed_size) != (last.base_offset, last.size):
        return None
    if UNCHECKED_FILE in listing.names or not last.continue_indexes():
        return None
    for segment in segments[:-1]:
        if not segment.trust_indexes():
            _rebuild(segment)
    return Recovered(
        segments,
        segments[0].base_offset,
        snapshot.offset,
        LeaderEpochs.load(request.directory),
        Producers(snapshot.states),
        read_cleaner(request.directory).gaps_below,
        snapshot.offset,
    )


def _rebuild(segment: Segment, next_offset: int | None = None) -> None:
    _log.warning("the indexes of %s do not fit and are made anew", segment.path)
    segment.rebuild_indexes()
    if next_offset is None:
        next_offset = segment.base_offset
        for _, header in segment.tail_headers():
            next_offset = header.next_offset
    segment.seal(next_offset)


def _learn_epochs(found: Recovered) -> None:
    """Read the epochs from the batches, where their file is gone."""
    for segment in found.segments:
        for _, header in headers(segment.file, 0, segment.size):
            found.epochs.note(header.leader_epoch, header.base_offset)


class _Scan:
    """One walk over the end of a log that was not closed."""

    def __init__(self, request: Request, listing: Listing, snapshot: Snapshot | None) -> None:
        self.request = request
        self.snapshot = snapshot
        self.now_ms = request.now_ms()
        unchecked = read_offset(request.directory, UNCHECKED_FILE)
        points = [point for point in (request.checked_to, unchecked) if point is not None]
        # Without a recovery point everything is checked, but only the tail can be torn.
        self.checked_to = min(points) if request.checked_to is not None else 0
        self.torn_from = self.checked_to if request.checked_to is not None else None
        self.replay_from = snapshot.offset if snapshot is not None else 0
        self.producers = Producers(dict(snapshot.states) if snapshot is not None else None)
        self.epochs = LeaderEpochs.load(request.directory)
        self.segments = self._within_limit(_segments(request, listing))
        self.damage: list[Corruption] = []
        self.kept_all = True
        gaps_below = read_cleaner(request.directory).gaps_below
        self.chain = Chain(self.segments[0].base_offset, gaps_below)

    def run(self) -> Recovered:
        """Walk, cut, sync."""
        begin = min(self.checked_to, self.replay_from)
        pending = self.segments
        kept: list[Segment] = []
        while pending:
            if kept and self._is_cut_off(pending[0]):
                self._drop(pending)
                break
            segment, *pending = pending
            kept.append(segment)
            if pending and pending[0].base_offset <= begin:
                if not segment.trust_indexes():
                    _rebuild(segment, pending[0].base_offset)
                self.chain.expected = pending[0].base_offset
                continue
            if not self._walk(segment, begin, pending[0] if pending else None):
                self._drop(pending)
                break
            if pending:
                segment.seal(self.chain.expected)
        if self.chain.expected < self.checked_to:
            what = f"the log was safe up to offset {self.checked_to}, but ends here"
            self._report(kept[-1], kept[-1].size, what)
            self.kept_all = False
        self._sync(kept)
        return self._result(kept)

    def _within_limit(self, segments: list[Segment]) -> list[Segment]:
        limit = self.request.limit
        if limit is None:
            return segments
        inside = [segment for segment in segments if segment.base_offset < limit] or segments[:1]
        self._drop(segments[len(inside) :])
        return inside

    def _drop(self, segments: list[Segment]) -> None:
        for segment in segments:
            _log.warning("%s lies beyond the end of the log and is removed", segment.path)
            segment.remove()

    def _result(self, segments: list[Segment]) -> Recovered:
        end = self.chain.expected
        if self.snapshot is not None and self.snapshot.offset > end:
            # It knows of batches that are gone: their duplicates must not be taken for known.
            remove_snapshots(self.request.directory, above=end)
            return recover(self.request)
        remove_snapshots(self.request.directory, above=end)
        self.epochs.cut_end(end)
        snapshot_offset = self.snapshot.offset if self.snapshot is not None else -1
        return Recovered(
            segments,
            segments[0].base_offset,
            end,
            self.epochs,
            self.producers,
            self.chain.gaps_below,
            snapshot_offset,
            self.damage,
            kept_all=self.kept_all,
        )

    def _sync(self, segments: list[Segment]) -> None:
        for segment in segments:
            if segment is segments[-1] or segment.base_offset >= self.checked_to:
                segment.sync()
        sync_directory(self.request.directory)

    def _is_cut_off(self, segment: Segment) -> bool:
        """Whether a segment does not follow the one before, whose tail was torn."""
        expected = self.chain.expected
        if not self.chain.missing(segment.base_offset):
            return False
        what = f"offsets {expected} to {segment.base_offset - 1} are missing"
        self._report(segment, 0, what)
        return self.torn_from is not None and expected >= self.torn_from

    # One segment ------------------------------------------------------------------------------

    def _walk(self, segment: Segment, begin: int, following: Segment | None) -> bool:
        """Check and index a segment; False where the log ends inside it."""
        self.chain.expected = segment.base_offset
        at = self._start_in(segment, begin)
        while True:
            at, fault = self._skim(segment, at)
            if fault is None:
                at, fault = self._check(segment, at)
            if fault is None and at == segment.size:
                return True
            beyond = self._beyond(segment, at, fault, following)
            if beyond is None:
                return self._end_at(segment, at, fault, following)
            self._report(segment, at, fault or _NOT_WHOLE)
            at, self.chain.expected = beyond

    def _beyond(
        self, segment: Segment, at: int, fault: str | None, following: Segment | None
    ) -> tuple[int, int] | None:
        """Where sound batches go on behind damage in what was safe, and with which offset.

        Behind a tail that was not safe yet there is nothing to go on with, unless it is damaged.
        """
        expected = self.chain.expected
        if fault is None and self.request.limit is not None:
            return None
        # A record has at least a byte: an offset that is further off is damaged itself.
        last = max(expected + 1 + segment.size - at, self.chain.gaps_below)
        if following is not None:
            last = min(last, following.base_offset)
        found = next_batch(segment.file, at + 1, segment.size, range(expected + 1, last))
        if found is None:
            return None
        if self.torn_from is None or expected >= self.torn_from:
            # A power cut can leave holes in what was not synced: whether this is one nobody knows.
            self.kept_all = False
            return None
        _, header = next(headers(segment.file, found, segment.size))
        return found, header.base_offset

    def _start_in(self, segment: Segment, begin: int) -> int:
        """Where to begin in a segment: before what is asked for and what is not indexed yet."""
        for index in (segment.offsets, segment.times):
            index.take_all()
        indexed = segment.cut_indexes(segment.size)
        if not _indexes_fit(segment):
            indexed = segment.cut_indexes(0)
        relative, start = segment.offsets.floor(begin - segment.base_offset)
        if start > indexed:
            relative, start = segment.offsets.last()
        if start <= 0:
            return 0
        first = next(headers(segment.file, start, segment.size), None)
        if first is None or first[1].base_offset - segment.base_offset != relative:
            # A bad entry must not make sound data look torn.
            return segment.cut_indexes(0)
        self.chain.expected = first[1].base_offset
        self.chain.epoch = first[1].leader_epoch
        return start

    def _skim(self, segment: Segment, at: int) -> tuple[int, str | None]:
        """Go over what is known to be sound, for the sake of indexes and producers."""
        for position, header in headers(segment.file, at, segment.size):
            if header.base_offset >= self.checked_to or self._beyond_limit(header.next_offset):
                return position, None
            fault = self.chain.fault(header, None)
            if fault is not None:
                return position, fault
            self._take(segment, position, header)
            at = position + header.size
        return at, None

    def _check(self, segment: Segment, at: int) -> tuple[int, str | None]:
        for position, header, batch in batches(segment.file, at, segment.size):
            if self._beyond_limit(header.next_offset):
                return position, None
            fault = self.chain.fault(header, batch)
            if fault is not None:
                return position, fault
            self._take(segment, position, header)
            self.epochs.note(header.leader_epoch, header.base_offset)
            at = position + header.size
        return at, None

    def _take(self, segment: Segment, position: int, header: BatchHeader) -> None:
        segment.note(position, header.base_offset, header.max_timestamp)
        if header.base_offset >= self.replay_from:
            self.producers.replay(header, self.now_ms)

    def _beyond_limit(self, next_offset: int) -> bool:
        return self.request.limit is not None and next_offset > self.request.limit

    def _end_at(
        self, segment: Segment, at: int, fault: str | None, following: Segment | None
    ) -> bool:
        """Cut the log at a position, or leave the damage in a segment that was safe before."""
        expected = self.chain.expected
        limited = fault is None and self.request.limit is not None
        safe_before = self.torn_from is None or expected < self.torn_from
        if not limited:
            # A batch that a crash cut short is nothing unusual; anything else is.
            torn = following is None and not safe_before
            level = logging.WARNING if torn else logging.ERROR
            self._report(segment, at, fault or _NOT_WHOLE, level)
        if following is not None and safe_before and not limited:
            self.chain.expected = following.base_offset
            return True
        _log.warning("cutting %s from %d to %d bytes", segment.path, segment.size, at)
        segment.truncate(at)
        return False

    def _report(
        self, segment: Segment, position: int, what: str, level: int = logging.ERROR
    ) -> None:
        damage = Corruption(segment.path, position, self.chain.expected, what)
        self.damage.append(damage)
        _log.log(level, "the log is damaged: %s", damage)


def _indexes_fit(segment: Segment) -> bool:
    """Whether the first and the last entry point to the batches that they name."""
    if not segment.offsets.count or not segment.times.count:
        return True
    relative, position = segment.offsets.last()
    first = next(headers(segment.file, 0, segment.size), None)
    last = next(headers(segment.file, position, segment.size), None)
    if first is None or last is None:
        return False
    return (
        segment.times.entry(0)[0] == first[1].max_timestamp
        and last[1].base_offset - segment.base_offset == relative
    )
