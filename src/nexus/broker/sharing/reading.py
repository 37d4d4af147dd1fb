"""The batches of a log that hold given messages, cut to these where that is easy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from nexus.broker.keeping import OffLoop
from nexus.broker.partition import Partition
from nexus.groups.sharing.deliveries import Acquired
from nexus.log import FileSlice
from nexus.wire.batch import iter_headers
from nexus.wire.cutting import Mark, cut

# Neighbours are read together; what is read beyond the last message that is meant is not sent.
CHUNK_BYTES: Final = 64 << 10


class Reader:
    """Reads what a queue hands out, mostly each time what follows the last."""

    def __init__(self, off_loop: OffLoop, partition: Partition) -> None:
        self._off_loop = off_loop
        self._partition = partition
        self._mark: Mark | None = None

    async def read(
        self, runs: Sequence[Acquired], max_bytes: int
    ) -> tuple[bytearray, list[Acquired]]:
        """The batches of the first runs, and these runs: at least one, then as many as fit."""
        out = bytearray()
        sent: list[Acquired] = []
        following = 0  # the first offset that was not read yet
        for run in runs:
            size = len(out)
            following = max(run.first, following)
            while following <= run.last:
                following = await self._read_some(out, following, run.last, runs)
            if sent and len(out) > max_bytes:
                del out[size:]
                break
            sent.append(run)
        return out, sent

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
            # All that is meant of a batch goes at once: it is not to come twice.
            end = min(_last_meant(runs, header.last_offset), header.last_offset)
            part, self._mark = cut(batch, header, offset, end, self._mark)
            out += part
            offset = following = end + 1
        return following

    async def _content(self, piece: FileSlice) -> bytes | bytearray:
        data = piece.read_resident()
        return await self._off_loop(piece.read) if data is None else data


def _last_meant(runs: Sequence[Acquired], end: int) -> int:
    """The last message of the last run that begins at an offset or before."""
    return runs[bisect_right(runs, (end + 1,)) - 1].last
