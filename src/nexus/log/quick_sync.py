"""A flush in two steps around a sync that the kernel does: what it has to sync, and what follows.

Only the plain case goes this way: data was appended to the last file, and nothing else changed.
All else is `PartitionLog.flush`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nexus.log.files import OpenFile
from nexus.log.segment import Segment

if TYPE_CHECKING:
    from nexus.log.partition_log import PartitionLog


class QuickSync(NamedTuple):
    """A sync under way; the file stays open for it."""

    segment: Segment
    file: OpenFile
    end_offset: int

    @property
    def fd(self) -> int:
        """What the kernel is asked to sync."""
        return self.file.fd


def begin(log: PartitionLog) -> QuickSync | None:
    """What has to be synced, if that is the data of one file; None where `flush` must see to it."""
    with log.lock:
        if log.failure is not None or log.needs_full_flush:
            return None
        last = log.segments[-1]
        return QuickSync(last, last.file, log.end_offset)


def finish(log: PartitionLog, sync: QuickSync, error: OSError | None) -> None:
    """The kernel is done. Raises StorageError, with the log offline, if it could not sync."""
    if error is not None:
        raise log.sync_failed(error)
    with log.lock:
        # A log that was cut or reopened meanwhile has other segments: what was synced is gone.
        if log.failure is None and any(one is sync.segment for one in log.segments):
            log.flushed_offset = max(log.flushed_offset, sync.end_offset)
