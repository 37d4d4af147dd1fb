"""One partition's log: appends batches, finds them again, and says how much of it is on disk.

`append`, `read` and what they call run on one thread and never wait for the disk to sync; all else
runs beside them on others. Readers take the tuple of segments as it is; who changes it, or the
end of the log, holds the lock, and who waits for the disk holds the flush lock before it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, RLock
from typing import Final

from nexus.log import compaction, reading, retention
from nexus.log.checkpoints import Checkpoints
from nexus.log.compaction import CompactionResult
from nexus.log.config import RELATIVE_OFFSET_MAX, SEGMENT_BYTES_MAX, LogConfig
from nexus.log.epochs import LeaderEpochs
from nexus.log.files import FileSlice, sync_directory
from nexus.log.layout import UNCHECKED_FILE, remove_offset, write_offset
from nexus.log.producers import Producers
from nexus.log.recovery import Recovered, Request, recover
from nexus.log.segment import Marks, Segment
from nexus.log.swap import read_cleaner, write_cleaner
from nexus.log.verify import Corruption, verify_segments
from nexus.wire.batch import BatchHeader, iter_headers, stamp, stamp_append_time, validate
from nexus.wire.errors import InvalidTimestamp, MessageTooLarge, OffsetOutOfRange, StorageError

_log: Final = logging.getLogger(__name__)

NO_TIME: Final = -1


@dataclass(slots=True)
class Append:
    """Where a batch went; for a duplicate, where it went the first time."""

    base_offset: int
    last_offset: int
    append_time_ms: int = NO_TIME
    duplicate: bool = False


class PartitionLog:
    """The log of one partition, or the error that keeps it offline."""

    def __init__(self, directory: Path, config: LogConfig, now_ms: Callable[[], int]) -> None:
        self.directory = directory
        self.config = config
        self.failure: StorageError | None = None
        self.closed = False
        self.start_offset = 0
        self.end_offset = 0
        self.flushed_offset = 0
        self.damage: list[Corruption] = []
        self.holes: list[Corruption] = []  # of the damage, what was not cut off
        self.kept_all = True
        self.leader_epochs = LeaderEpochs(directory)
        self.producers = Producers()
        self.segments: tuple[Segment, ...] = ()
        self.lock = Lock()
        self.flush_lock = RLock()
        self._now_ms = now_ms
        # What to sync beside the last segment.
        self._sealed: list[Segment] = []
        self._names_changed = False
        self._flushing_more = False
        self._sync_failed = False
        self._checkpoints = Checkpoints(directory)
        self._unchecked = False
        # Before this offset some may be missing between two batches, for good reasons.
        self.gaps_below = 0
        self._gaps_changed = False

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        recovery_point: int | None,
        clean: bool,
        now_ms: Callable[[], int],
    ) -> PartitionLog:
        """Open or create the log in a directory; raises StorageError where the disk fails."""
        log = cls(directory, config, now_ms)
        try:
            if not directory.is_dir():
                directory.mkdir(parents=True)
                sync_directory(directory.parent)
            log._take(recover(Request(directory, config, recovery_point, clean, now_ms)))
        except OSError as error:
            raise log._fail("opening it", error) from error
        return log

    @classmethod
    def offline(
        cls, directory: Path, config: LogConfig, failure: StorageError, now_ms: Callable[[], int]
    ) -> PartitionLog:
        """A log that could not be opened; `reopen` tries again."""
        log = cls(directory, config, now_ms)
        log.failure = failure
        return log

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments, without their indexes."""
        return sum(segment.size for segment in self.segments)

    @property
    def active_base(self) -> int:
        """Where the segment that is written to begins."""
        return self.segments[-1].base_offset if self.segments else 0

    def set_config(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.config = config

    def __repr__(self) -> str:
        return f"PartitionLog({str(self.directory)!r}, {self.start_offset}..{self.end_offset})"

    # Appending --------------------------------------------------------------------------------

    def append(self, batch: memoryview, header: BatchHeader, leader_epoch: int) -> Append:
        """Append a batch that passed `check_from_client`, giving it its offsets in place.

        Raises MessageTooLarge, InvalidTimestamp, OutOfOrderSequence, InvalidProducerEpoch; and
        StorageError where the disk fails, which takes the log offline.
        """
        config = self.config
        now = self._now_ms()
        if len(batch) > config.max_message_bytes:
            raise MessageTooLarge(
                f"a batch of {len(batch)} bytes, {config.max_message_bytes} at most"
            )
        max_timestamp = header.max_timestamp
        append_time = NO_TIME
        if config.log_append_time:
            append_time = max_timestamp = now
        elif max_timestamp > now + config.timestamp_after_max_ms:
            raise InvalidTimestamp(f"a batch has time {max_timestamp}, it is {now}")
        self._raise_failure()
        with self.lock:
            self._raise_closed()
            idempotent = header.producer_id >= 0
            if idempotent and (seen := self.producers.check(header)) is not None:
                return Append(seen.base_offset, seen.last_offset, duplicate=True)
            base_offset = self.end_offset
            last_offset = base_offset + header.last_offset_delta
            if append_time != NO_TIME:
                stamp_append_time(batch, now)
            stamp(batch, base_offset, leader_epoch)
            self._write(batch, base_offset, last_offset + 1, max_timestamp, now)
            if leader_epoch > self.leader_epochs.latest:
                self.leader_epochs.note(leader_epoch, base_offset)
            if idempotent:
                self.producers.update(header, base_offset, now)
        return Append(base_offset, last_offset, append_time)

    def append_replicated(self, batches: memoryview) -> None:
        """Append batches as another broker's log has them, offsets and epochs included."""
        now = self._now_ms()
        self._raise_failure()
        for at, header in iter_headers(batches):
            batch = batches[at : at + header.size]
            validate(batch, header, compacted=True)
            with self.lock:
                self._raise_closed()
                if header.base_offset < self.end_offset:
                    raise OffsetOutOfRange(f"{header.base_offset} lies before {self.end_offset}")
                if header.base_offset > self.end_offset:
                    self._skip_to(header.base_offset)
                base_offset, next_offset = header.base_offset, header.next_offset
                self._write(batch, base_offset, next_offset, header.max_timestamp, now)
                self.leader_epochs.note(header.leader_epoch, base_offset)
                self.producers.replay(header, now)

    def begin_epoch(self, epoch: int) -> None:
        """A leadership begins here, at the end of the log, whether or not it writes anything."""
        with self.lock:
            self.leader_epochs.note(epoch, self.end_offset)

    def _skip_to(self, offset: int) -> None:
        """Leave out offsets that the other log does not have."""
        if self.size_bytes == 0:
            self.start_offset = offset
        self.segments[-1].marks.clear()
        self.gaps_below = offset
        self._gaps_changed = True

    def _write(
        self,
        batch: memoryview,
        base_offset: int,
        next_offset: int,
        max_timestamp: int,
        now: int,
    ) -> None:
        segment = self.segments[-1]
        try:
            if segment.size == 0:
                segment.created_ms = now
            elif self._roll_due(segment, len(batch), next_offset, now):
                segment = self._roll(base_offset, now)
            segment.append(batch, base_offset, max_timestamp)
        except OSError as error:
            raise self._fail("writing", error) from error
        self.end_offset = next_offset

    def _roll_due(self, segment: Segment, size: int, next_offset: int, now: int) -> bool:
        config = self.config
        return (
            segment.size + size > config.segment_bytes
            or segment.size + size > SEGMENT_BYTES_MAX
            or next_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or segment.times.count * 12 >= config.index_bytes_max
            or now - segment.created_ms >= config.segment_ms
        )

    def _roll(self, base_offset: int, now: int) -> Segment:
        """Begin a new segment; the lock is held."""
        old = self.segments[-1]
        new = Segment.create(self.directory, base_offset, self.config)
        new.created_ms = now
        old.seal(base_offset)
        self._sealed.append(old)
        self._checkpoints.sealed(old)
        self._names_changed = True
        self.segments = (*self.segments, new)
        old.marks = Marks()
        return new

    def roll(self) -> None:
        """Begin a new segment, unless the last one is empty."""
        with self.lock:
            if self.failure is None and not self.closed and self.segments[-1].size:
                try:
                    self._roll(self.end_offset, self._now_ms())
                except OSError as error:
                    raise self._fail("writing", error) from error

    def _fail(self, doing: str, error: OSError) -> StorageError:
        """Take the log offline: nothing is tried again on the same files."""
        what = f"{self.directory}: {doing} failed: {error.strerror or error}"
        _log.error("a partition goes offline: %s", what)
        self.failure = StorageError(what)
        return self.failure

    # Reading ----------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, upto: int, at_least_one: bool = True
    ) -> FileSlice | None:
        """Whole batches from the one that holds `offset` on, none at `upto` or beyond.

        At most `max_bytes`, or one batch if `at_least_one`; None where there is nothing. Raises
        OffsetOutOfRange, and CorruptMessage where the file is damaged.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"{offset} is not in {self.start_offset}..{self.end_offset}")
        limit = min(upto, self.end_offset)
        if offset >= limit:
            return None
        return reading.read(self, offset, max_bytes, limit, at_least_one)

    def offset_for_time(self, timestamp_ms: int, upto: int) -> tuple[int, int] | None:
        """Offset and time of the first record at or after a time, among those before `upto`."""
        return reading.offset_for_time(self, timestamp_ms, upto)

    def max_timestamp(self) -> tuple[int, int] | None:
        """Offset and time of the latest record."""
        latest = max((segment.max_timestamp for segment in self.segments), default=NO_TIME)
        return self.offset_for_time(latest, self.end_offset) if latest >= 0 else None

    def end_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The last epoch at or below one, and where it ends; (-1, -1) if that is unknown."""
        return self.leader_epochs.end_for(epoch, self.end_offset)

    def verify(self) -> Iterator[Corruption]:
        """Check every batch there is now, and report what is damaged."""
        with self.flush_lock:
            # Held open: retention may delete one meanwhile.
            slices = [(one, FileSlice(one.file, 0, one.size)) for one in self.segments]
        yield from verify_segments(slices, self.gaps_below)

    # Durability -------------------------------------------------------------------------------

    def flush(self) -> int:
        """Sync what was appended before the call; returns the offset up to which all is on disk."""
        with self.flush_lock:
            self._raise_failure()
            # The end first: whatever lies before it is in the segments that are taken next.
            end = self.end_offset
            with self.lock:
                more = self.needs_full_flush
                if end == self.flushed_offset and not more:
                    return end
                self._flushing_more = more
                sealed, self._sealed = self._sealed, []
                names_changed, self._names_changed = self._names_changed, False
                last = self.segments[-1]
            try:
                self.leader_epochs.save()
                if self._gaps_changed:
                    self.allow_gaps_below(self.gaps_below)
                for segment in sealed:
                    segment.sync()
                last.sync()
                if names_changed:
                    sync_directory(self.directory)
            except OSError as error:
                raise self.sync_failed(error) from error
            with self.lock:
                self._flushing_more = False
                # A quick sync may have come further meanwhile.
                self.flushed_offset = max(self.flushed_offset, end)
            return end

    @property
    def needs_full_flush(self) -> bool:
        """Whether more than the last segment's data waits to be synced; the lock is held."""
        # What a flush under way has taken on itself is not synced yet either.
        changed = self._sealed or self._names_changed or self._gaps_changed
        return bool(changed or self._flushing_more or self.leader_epochs.dirty)

    def sync_failed(self, error: OSError) -> StorageError:
        """A sync of the last segment failed: go offline, and never sync that file again."""
        self._sync_failed = True
        return self._fail("syncing", error)

    def allow_gaps_below(self, offset: int) -> None:
        """Note durably that what is missing before an offset is no damage. Raises OSError."""
        with self.flush_lock:
            self._gaps_changed = False
            self.gaps_below = max(self.gaps_below, offset)
            cleaner = read_cleaner(self.directory)
            write_cleaner(self.directory, cleaner._replace(gaps_below=self.gaps_below))

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise StorageError(str(self.failure))

    def _raise_closed(self) -> None:
        """Refuse to append; the lock is held, so what closes the log sees all or nothing of it."""
        self._raise_failure()
        if self.closed:
            raise StorageError(f"{self.directory}: the log is closed")

    def checkpoint(self) -> int:
        """Bound what a crash would cost; returns the new recovery point. Raises StorageError."""
        with self.flush_lock:
            point = self.flush()
            with self.lock:
                sealed = self._checkpoints.take_sealed()
                self.producers.expire(self._now_ms() - self.config.producer_expiry_ms)
            self._checkpoints.write(point, sealed, self.segments[-1], self.producers)
            return point

    def checkpointed(self) -> None:
        """The recovery point that `checkpoint` returned is on disk."""
        if self._unchecked:
            self._unchecked = False
            remove_offset(self.directory, UNCHECKED_FILE)

    def reopen(self) -> None:
        """Try to come back after a failure, with what is on disk; raises StorageError."""
        with self.flush_lock:
            if self.failure is None or self.closed:
                return
            try:
                with self.lock:
                    self._reload(self._safe_end() if self.segments else None)
            except OSError as error:
                raise self._fail("reopening it", error) from error
            self.failure = None
            self._sync_failed = False
            # A file that failed once is not written to again.
            self.roll()
            self.flush()

    def _safe_end(self) -> int:
        """How much can be kept: all that is whole if no sync failed, else what was synced."""
        if self._sync_failed:
            return self.flushed_offset
        try:
            for segment in (*self._sealed, self.segments[-1]):
                segment.sync()
        except OSError as error:
            _log.error("%s: what was not synced is lost: %s", self.directory, error)
            self._sync_failed = True
            return self.flushed_offset
        return self.end_offset

    def truncate_to(self, offset: int) -> None:
        """Cut the log before the batch that reaches an offset; for what other brokers replaced."""
        with self.flush_lock:
            self._raise_failure()
            if offset >= self.end_offset:
                return
            try:
                # A recovery point may lie beyond: what comes after the cut was never checked.
                write_offset(self.directory, UNCHECKED_FILE, offset)
                with self.lock:
                    self._reload(offset)
                    self._unchecked = True
            except OSError as error:
                raise self._fail("cutting it", error) from error

    def _reload(self, limit: int | None) -> None:
        """Let go of all files and recover, up to an offset; the lock is held."""
        for segment in self.segments:
            segment.close()
        flushed = self.flushed_offset if limit is not None else None
        checked_to = None if limit is None or flushed is None else min(flushed, limit)
        request = Request(self.directory, self.config, checked_to, False, self._now_ms, limit)
        self._take(recover(request))

    def _take(self, found: Recovered) -> None:
        self.leader_epochs = found.epochs
        self.leader_epochs.cut_start(found.start_offset)
        self.producers = found.producers
        self.start_offset = found.start_offset
        self.segments = tuple(found.segments)
        self.end_offset = self.flushed_offset = found.end_offset
        self.damage = found.damage
        self.holes = [one for one in found.damage if one.offset < found.end_offset]
        self.kept_all = found.kept_all
        self.gaps_below = found.gaps_below
        self._gaps_changed = False
        self._sealed = []
        self._flushing_more = False
        self._names_changed = found.new_names
        self._checkpoints = Checkpoints(self.directory, found.snapshot_offset)
        self._unchecked = (self.directory / UNCHECKED_FILE).exists()

    # Making room ------------------------------------------------------------------------------

    def retain(self, now_ms: int) -> int:
        """Delete the segments that are too old or too many; returns the bytes freed."""
        return retention.retain(self, now_ms)

    def delete_before(self, offset: int) -> int:
        """Begin the log at an offset, for good; returns where it begins now."""
        return retention.delete_before(self, offset)

    def drop_first(self, count: int) -> tuple[Segment, ...]:
        """Begin the log with a later segment; returns those before it, to be deleted."""
        with self.lock:
            dropped, self.segments = self.segments[:count], self.segments[count:]
            self.start_offset = max(self.start_offset, self.segments[0].base_offset)
            self.leader_epochs.cut_start(self.start_offset)
            self._sealed = [segment for segment in self._sealed if segment not in dropped]
        return dropped

    def compact(self, now_ms: int) -> CompactionResult:
        """Keep the last record of each key in the segments that are no longer written to."""
        return compaction.compact(self, now_ms)

    def close(self) -> None:
        """Sync everything and note the end, so that the next start reads no data."""
        with self.flush_lock:
            with self.lock:
                self.closed = True
            try:
                if self.failure is None and self.segments:
                    self._close_cleanly()
            finally:
                self.abandon()

    def _close_cleanly(self) -> None:
        end = self.flush()
        try:
            self._checkpoints.close(end, self.segments[-1], self.producers)
        except OSError as error:
            raise self._fail("closing it", error) from error

    def abandon(self) -> None:
        """Let go of all files as they are."""
        # Under the lock: an append under way must not open a file again, which may be another's.
        with self.lock:
            self.closed = True
            self.failure = self.failure or StorageError(f"{self.directory}: the log is closed")
            for segment in self.segments:
                segment.close()
