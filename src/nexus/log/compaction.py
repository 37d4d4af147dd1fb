"""Log compaction: of the records with one key, only the last stays.

Segments that are no longer written to are rewritten with their offsets and sequences as they
were. A tombstone goes when it was first cleaned longer ago than `delete_retention_ms`. A batch that
loses all records stays, empty, where a producer's last sequence or the end of a segment needs it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from nexus.log.config import RELATIVE_OFFSET_MAX, SEGMENT_BYTES_MAX
from nexus.log.filtering import Filtered, emptied, filtered, keys_of
from nexus.log.scan import batches
from nexus.log.segment import NO_TIMESTAMP, Segment
from nexus.log.swap import (
    CLEANED,
    Cleaner,
    Pass,
    commit_swap,
    finish_swap,
    read_cleaner,
    write_cleaner,
)
from nexus.log.verify import Corruption
from nexus.wire.batch import BatchHeader, read_header, validate
from nexus.wire.errors import CorruptMessage, ProtocolError, StorageError
from nexus.wire.records import RecordKey

if TYPE_CHECKING:
    from nexus.log.partition_log import PartitionLog

_log: Final = logging.getLogger(__name__)
# What one run remembers; with more keys than that the rest waits for the next run.
KEYS_MAX: Final = 250_000
# Longer keys are remembered by a digest, which is longer than any key that is not.
_KEY_BYTES_MAX: Final = 24


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a run did; nothing, where too little was to be gained or it found damage."""

    bytes_before: int = 0
    bytes_after: int = 0
    records_removed: int = 0
    segments_before: int = 0
    segments_after: int = 0
    cleaned_to: int = 0
    damage: Corruption | None = None


# A segment that is no longer written to, and the offset where the next one begins.
_Sealed = tuple[Segment, int]


class _Damaged(Exception):
    def __init__(self, segment: Segment, position: int, offset: int, what: str) -> None:
        self.segment = segment
        self.damage = Corruption(segment.path, position, offset, what)
        super().__init__(str(self.damage))


def compact(log: PartitionLog, now_ms: int) -> CompactionResult:
    """Run once over the segments that are no longer written to. Raises StorageError."""
    if not log.config.compact or log.failure is not None:
        return CompactionResult()
    last = log.segments[-1]
    if last.size and now_ms - last.created_ms >= log.config.segment_ms:
        log.roll()
        log.flush()
    sealed = _cleanable(log, now_ms)
    cleaner = read_cleaner(log.directory)
    if not sealed or not _worthwhile(log, sealed, cleaner, now_ms):
        return CompactionResult(cleaned_to=cleaner.cleaned_to)
    try:
        return _Run(log, cleaner, sealed, now_ms).run()
    except _Damaged as found:
        if all(found.segment is not segment for segment in log.segments):
            return CompactionResult()  # it was cut or deleted while it was read
        _log.error("a log cannot be compacted, it is damaged: %s", found.damage)
        return CompactionResult(damage=found.damage)
    except FileNotFoundError:
        return CompactionResult()  # it was deleted while it was read
    except OSError as error:
        raise StorageError(f"{log.directory}: compaction failed: {error.strerror}") from error
    finally:
        if log.failure is None:
            _sweep(log)


def _sweep(log: PartitionLog) -> None:
    """Remove what an unfinished run wrote; a full disk needs it most."""
    try:
        with log.flush_lock:
            finish_swap(log.directory)
    except OSError as error:
        _log.warning("%s: cannot clear up after compaction: %s", log.directory, error)


def _cleanable(log: PartitionLog, now_ms: int) -> list[_Sealed]:
    """The segments from the first on that are sealed, on disk, and old enough."""
    found: list[_Sealed] = []
    youngest = now_ms - log.config.min_compaction_lag_ms
    for segment, following in pairwise(log.segments):
        if following.base_offset > log.flushed_offset:
            break
        if log.config.min_compaction_lag_ms and segment.max_timestamp > youngest:
            break
        found.append((segment, following.base_offset))
    return found


def _worthwhile(log: PartitionLog, sealed: list[_Sealed], cleaner: Cleaner, now_ms: int) -> bool:
    total = sum(segment.size for segment, _ in sealed)
    dirty = sum(segment.size for segment, end in sealed if end > cleaner.cleaned_to)
    if dirty and dirty >= total * log.config.min_cleanable_dirty_ratio:
        return True
    horizon = now_ms - log.config.delete_retention_ms
    return any(run.tombstones and 0 < run.time_ms <= horizon for run in cleaner.passes)


class _Run:
    """One run: learn the last offset of each key, rewrite, exchange."""

    def __init__(
        self, log: PartitionLog, cleaner: Cleaner, sealed: list[_Sealed], now_ms: int
    ) -> None:
        self.log = log
        self.cleaner = cleaner
        self.sealed = sealed
        self.now_ms = now_ms
        self.latest: dict[bytes, int] = {}
        self.map_end = sealed[-1][1]
        self.producers = log.producers.last_offsets()
        horizon = now_ms - log.config.delete_retention_ms
        expired = [run.offset for run in cleaner.passes if run.time_ms <= horizon]
        self.tombstones_go_below = max(expired, default=0)
        self.tombstones = 0
        self.removed = 0
        self.bytes_before = 0
        self.segments_before = 0
        # From here on they can be deleted or replaced, and still be read.
        for segment, _ in sealed:
            segment.hold()

    def run(self) -> CompactionResult:
        """Do it, and say what came of it."""
        self._learn()
        self.log.allow_gaps_below(self.map_end)
        pending = [one for one in self.sealed if one[0].base_offset < self.map_end]
        written = []
        while pending:
            new = self._rewrite(pending)
            if new is not None:
                written.append(new)
        with self.log.flush_lock:
            write_cleaner(self.log.directory, Cleaner(self.log.gaps_below, self._passes()))
        return CompactionResult(
            self.bytes_before,
            sum(segment.size for segment in written),
            self.removed,
            self.segments_before,
            len(written),
            self.map_end,
        )

    def _passes(self) -> tuple[Pass, ...]:
        horizon = self.tombstones_go_below
        done = [Pass(horizon, 0, 0)] if horizon else []
        waiting = [run for run in self.cleaner.passes if run.offset > horizon]
        return (*done, *waiting, Pass(self.map_end, self.now_ms, self.tombstones))

    # Learning ---------------------------------------------------------------------------------

    def _learn(self) -> None:
        """Find the last offset of each key in what was not cleaned before."""
        dirty_from = self.cleaner.cleaned_to
        for segment, _ in self.sealed:
            for _, header, batch in _checked(segment):
                if header.last_offset < dirty_from:
                    continue
                if len(self.latest) >= KEYS_MAX:
                    self.map_end = header.base_offset
                    return
                self._learn_batch(header, batch)

    def _learn_batch(self, header: BatchHeader, batch: memoryview) -> None:
        try:
            for record in keys_of(batch):
                if record.key is not None:
                    self.latest[_digest(record.key)] = header.base_offset + record.offset_delta
        except ProtocolError as error:
            # Its checksum is right, so a client sent it so: it stays as it is.
            _log.warning("%s: a batch cannot be looked into: %s", self.log.directory, error)

    # Rewriting --------------------------------------------------------------------------------

    def _rewrite(self, pending: list[_Sealed]) -> Segment | None:
        """Write what is left of the next few segments, and put it in their place.

        They become one, as many as are sure to fit. None if they are gone meanwhile.
        """
        config = self.log.config
        first = pending[0][0].base_offset
        new = Segment.create(self.log.directory, first, config, CLEANED)
        group: list[Segment] = []
        stand_in: tuple[int, memoryview] | None = None
        while pending and (not group or self._fits(new, *pending[0])):
            segment, _ = pending.pop(0)
            group.append(segment)
            stand_in = self._rewrite_segment(segment, new)
        if stand_in is not None:
            new.append(stand_in[1], stand_in[0], NO_TIMESTAMP)
        new.marks.clear()
        new.created_ms = group[-1].created_ms
        self.bytes_before += sum(segment.size for segment in group)
        self.segments_before += len(group)
        return new if self._exchange(group, new) else None

    def _fits(self, new: Segment, segment: Segment, end: int) -> bool:
        room = min(self.log.config.segment_bytes, SEGMENT_BYTES_MAX) - new.size
        return segment.size <= room and end - new.base_offset <= RELATIVE_OFFSET_MAX

    def _rewrite_segment(self, segment: Segment, new: Segment) -> tuple[int, memoryview] | None:
        """Append what is left of a segment to a new one.

        Returns an empty batch where the last one went: readers need it to get to the end, if
        nothing follows.
        """
        stand_in = None
        for _, header, batch in _checked(segment):
            left = self._clean(header, batch)
            if left is not None:
                new.append(left, header.base_offset, read_header(left).max_timestamp)
            stand_in = None if left is not None else (header.base_offset, emptied(batch, header))
        return stand_in

    def _clean(self, header: BatchHeader, batch: memoryview) -> memoryview | None:
        """What is left of a batch, None if it may go altogether."""
        left = self._filter(header, batch)
        self.removed += left.removed
        if left.kept:
            return left.batch
        if self.producers.get(header.producer_id) == header.base_offset:
            return emptied(batch, header)
        return None

    def _filter(self, header: BatchHeader, batch: memoryview) -> Filtered:
        base_offset = header.base_offset
        tombstones = 0

        def keep(record: RecordKey) -> bool:
            nonlocal tombstones
            offset = base_offset + record.offset_delta
            if offset >= self.map_end:
                return True
            if record.key is None or self.latest.get(_digest(record.key), offset) > offset:
                return False
            if record.is_tombstone:
                if offset < self.tombstones_go_below:
                    return False
                tombstones += 1
            return True

        try:
            left = filtered(batch, header, keep)
        except (ProtocolError, ValueError):
            return Filtered(batch, max(header.count, 1), 0)
        self.tombstones += tombstones
        return left

    def _exchange(self, group: list[Segment], new: Segment) -> bool:
        """Let the new segment stand for the old ones, on disk and for readers."""
        log = self.log
        with log.flush_lock:
            segments = log.segments
            first = next((n for n, one in enumerate(segments) if one is group[0]), -1)
            after = first + len(group)
            if log.failure is not None or first < 0 or list(segments[first:after]) != group:
                return False
            new.seal(segments[after].base_offset)
            new.sync()
            new.sync_indexes()
            commit_swap(log.directory, new.base_offset, [one.base_offset for one in group])
            with log.lock:
                log.segments = (*log.segments[:first], new, *log.segments[after:])
            finish_swap(log.directory)
            new.renamed()
        return True


def _checked(segment: Segment) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """The batches of a sealed segment; raises where one is damaged: a copy would hide it."""
    at, expected = 0, segment.base_offset
    for position, header, batch in batches(segment.file, 0, segment.size):
        try:
            validate(batch, header, compacted=True)
        except CorruptMessage as error:
            raise _Damaged(segment, position, expected, str(error)) from None
        yield position, header, batch
        at, expected = position + header.size, header.next_offset
    if at < segment.size:
        raise _Damaged(segment, at, expected, "what follows is not a whole batch")


def _digest(key: bytes) -> bytes:
    if len(key) <= _KEY_BYTES_MAX:
        return key
    return hashlib.blake2b(key, digest_size=_KEY_BYTES_MAX + 1).digest()
