"""The batches of a log that hold given messages, cut to these where that is easy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from nexus.broker.keeping import Damaged, OffLoop
from nexus.broker.partition import Partition
from nexus.groups.sharing.deliveries import Acquired
from nexus.log import FileSlice
from nexus.wire.batch import BatchHeader, iter_headers, validate
from nexus.wire.cutting import Mark, cut
from nexus.wire.errors import CorruptMessage

# Neighbours are read together; what is read beyond the last message that is meant is not sent.
CHUNK_BYTES: Final = 64 << 10


class Reader:
    """Reads what a queue hands out, mostly each time what follows the last."""

    def __init__(self, off_loop: OffLoop, partition: Partition, damaged: Damaged) -> None:
        self._off_loop = off_loop
        self._partition = partition
        self._damaged = damaged
        self._mark: Mark | None = None
        self._sound_at = -1  # the batch that was checked last

    async def read(
        self, runs: Sequence[Acquired], max_bytes: int
    ) -> tuple[bytearray, Sequence[Acquired], Sequence[Acquired]]:
        """The batches of the first messages, these, and the others.

        That is at least one batch, and then until there are as many bytes as asked for. Raises
        CorruptMessage at a batch that is damaged.
        """
        out = bytearray()
        following = 0  # the first offset that was not read yet
        for run in runs:
            following = max(run.first, following)
            while following <= run.last:
                if len(out) >= max_bytes:
                    return out, *_parted(runs, following)
                following = await self._read_some(out, following, run.last, runs)
        return out, runs, ()

    def messages_in(self, size: int) -> int:
        """About how many messages have so many bytes; rather more than less, and at least one."""
        log = self._partition.log
        average = log.size_bytes / max(log.end_offset - log.start_offset, 1)
        return int(2 * size / max(average, 1)) + 1

    async def _read_some(
        self, out: bytearray, offset: int, last: int, runs: Sequence[Acquired]
    ) -> int:
        """Add batches from the one with an offset to, at most, the one with the last."""
        partition = self._partition
        piece = partition.log.read(offset, CHUNK_BYTES, partition.high_watermark)
        if piece is None:
            return last + 1
        data = memoryview(await self._content(piece))
        following = last + 1
        for at, header in iter_headers(data):
            if header.base_offset > last:
                break
            batch = data[at : at + header.size]
            if not piece.is_checked:
                self._check(batch, header)
            # All that is meant of a batch goes at once: it is not to come twice.
            end = min(_last_meant(runs, header.last_offset), header.last_offset)
            part, self._mark = cut(batch, header, offset, end, self._mark)
            out += part
            offset = following = end + 1
        return following

    def _check(self, batch: memoryview, header: BatchHeader) -> None:
        """What is cut out gets a checksum of its own: what is damaged must not get one."""
        if header.base_offset == self._sound_at:
            return
        try:
            validate(batch, header, compacted=header.base_offset < self._partition.log.gaps_below)
        except CorruptMessage:
            self._damaged(self._partition, header.base_offset)
            raise
        self._sound_at = header.base_offset

    async def _content(self, piece: FileSlice) -> bytes | bytearray:
        data = piece.read_resident()
        return await self._off_loop(piece.read) if data is None else data


def _parted(runs: Sequence[Acquired], at: int) -> tuple[list[Acquired], list[Acquired]]:
    """What is before an offset, and what is not."""
    before = [run._replace(last=min(run.last, at - 1)) for run in runs if run.first < at]
    after = [run._replace(first=max(run.first, at)) for run in runs if run.last >= at]
    return before, after


def _last_meant(runs: Sequence[Acquired], end: int) -> int:
    """The last message of the last run that begins at an offset or before."""
    return runs[bisect_right(runs, (end + 1,)) - 1].last
