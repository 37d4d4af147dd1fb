"""What is synced now and then so that a crash costs little: indexes, and the producers' state.

None of it is needed to be right: what is missing after a crash is made up for from the log.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from nexus.log.producers import Producers, Snapshot
from nexus.log.segment import Segment
from nexus.log.snapshots import remove_snapshots, write_snapshot

_log: Final = logging.getLogger(__name__)
# How much log may pass until what a power cut would have to make up for is synced once more.
_SYNC_EVERY_BYTES: Final = 64 << 20


class Checkpoints:
    """The checkpoints of one log; `sealed` is changed only under the log's lock."""

    def __init__(self, directory: Path, snapshot_offset: int = -1) -> None:
        self._directory = directory
        self._sealed: list[Segment] = []
        self._snapshot_offset = snapshot_offset
        self._durable_offset = -1
        self._bytes_since_durable = 0

    def sealed(self, segment: Segment) -> None:
        """A segment's indexes are complete: the next checkpoint syncs them."""
        self._sealed.append(segment)
        self._bytes_since_durable += segment.size

    def take_sealed(self) -> list[Segment]:
        """The segments whose indexes are to be synced now."""
        taken, self._sealed = self._sealed, []
        return taken

    def write(self, point: int, sealed: list[Segment], last: Segment, known: Producers) -> None:
        """Write what has changed, with all before `point` on disk. Failing is no harm."""
        try:
            for segment in sealed:
                segment.sync_indexes()
            if last.size - last.indexes_synced_at > _SYNC_EVERY_BYTES:
                last.sync_indexes()
            if point != self._snapshot_offset:
                self._snapshot(point, last, known, closed_size=-1)
        except OSError as error:
            # The log itself is sound, and fails on its own account.
            _log.warning("%s: cannot write a checkpoint: %s", self._directory, error)

    def close(self, end: int, last: Segment, known: Producers) -> None:
        """Sync everything and note the log's end. Raises OSError."""
        last.seal(end)
        for segment in (*self.take_sealed(), last):
            segment.sync_indexes()
        self._snapshot(end, last, known, closed_size=last.size)

    def _snapshot(self, offset: int, last: Segment, known: Producers, *, closed_size: int) -> None:
        """Write the producers' state, durably once in a while: a power cut then costs a walk."""
        behind = self._bytes_since_durable + last.size
        durable = closed_size >= 0 or self._durable_offset < 0 or behind > _SYNC_EVERY_BYTES
        states = known.below(offset)
        snapshot = Snapshot(offset, states, last.base_offset, last.created_ms, closed_size)
        write_snapshot(self._directory, snapshot, durable=durable)
        self._snapshot_offset = offset
        if durable:
            self._durable_offset = offset
            self._bytes_since_durable = -last.size
        remove_snapshots(self._directory, keep={offset, self._durable_offset})
