"""The batches of a log that hold given messages, whole, as they were appended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexus.broker.keeping import OffLoop
from nexus.broker.partition import Partition
from nexus.groups.sharing.deliveries import Acquired
from nexus.log import FileSlice
from nexus.wire.batch import iter_headers

# Neighbours are read together; what is read beyond the last message that is meant is not sent.
CHUNK_BYTES: Final = 64 << 10


async def read_batches(
    off_loop: OffLoop, partition: Partition, runs: Sequence[Acquired], max_bytes: int
) -> tuple[bytes, list[Acquired]]:
    """The batches of the first runs, and these runs: at least one, then as many as fit."""
    out = bytearray()
    sent: list[Acquired] = []
    have = -1  # the last offset of what was read so far
    for run in runs:
        at = len(out)
        offset = max(run.first, have + 1)
        while offset <= run.last:
            batches, offset = await _read_some(off_loop, partition, offset, run.last)
            out += batches
        if sent and len(out) > max_bytes:
            del out[at:]
            break
        sent.append(run)
        have = max(have, offset - 1)
    return bytes(out), sent


async def _read_some(
    off_loop: OffLoop, partition: Partition, offset: int, last: int
) -> tuple[bytes, int]:
    """Some batches from the one with an offset to, at most, the one with the last; what follows."""
    piece = partition.log.read(offset, CHUNK_BYTES, partition.high_watermark)
    if piece is None:
        return b"", last + 1
    data = await _content(off_loop, piece)
    end = 0
    for at, header in iter_headers(data):
        if header.base_offset > last:
            break
        end, offset = at + header.size, header.next_offset
    return data[:end], offset if end else last + 1


async def _content(off_loop: OffLoop, piece: FileSlice) -> bytes:
    data = piece.read_resident()
    if data is None:
        data = await off_loop(piece.read)
    return bytes(data)
