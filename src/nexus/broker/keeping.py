"""Loads what a broker keeps in a compacted topic of its own: all that was ever acknowledged there.

Every batch is checked on the way. A damaged one is waited for while others may have it; where
nobody has, it is left out and said to be lost. Nothing is made of garbage.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

from nexus.broker.partition import NotLeader, Partition
from nexus.log import FileSlice, PartitionLog
from nexus.log.mending import check_batches, sound_behind
from nexus.observe.logs import get_logger
from nexus.wire.batch import iter_headers, read_header
from nexus.wire.errors import CorruptMessage
from nexus.wire.records import Record, decode_records

log = get_logger(__name__)

LOAD_CHUNK_BYTES: Final = 4 << 20
MENDED_WITHIN_SECONDS: Final = 0.1

OffLoop = Callable[..., Any]
# Told of damage in a partition at an offset; whether a sound copy will take its place.
Damaged = Callable[[Partition, int], bool]


class _Chunk(NamedTuple):
    """Records, where to go on, and where a damaged batch is in the way."""

    records: list[Record]
    next_offset: int
    damaged_at: int | None = None


async def replay(
    partition: Partition, off_loop: OffLoop, damaged: Damaged
) -> AsyncIterator[list[Record]]:
    """All that was ever acknowledged in a partition that is led here, some of it at a time."""
    if (leading := partition.leading) is not None:
        # A new leader must first know what that is.
        await partition.safe(leading.first)
    epoch, offset = partition.leader_epoch, partition.log.start_offset
    read = _read_at
    while offset < partition.high_watermark:
        chunk: _Chunk = await off_loop(read, partition.log, offset)
        yield chunk.records
        read, offset = _read_at, chunk.next_offset
        if chunk.damaged_at is None:
            continue
        if damaged(partition, chunk.damaged_at):
            await asyncio.sleep(MENDED_WITHIN_SECONDS)
            if not partition.is_leader or partition.leader_epoch != epoch:
                raise NotLeader(f"{partition.topic}/{partition.index} is led elsewhere now")
        else:
            _say_lost(partition, chunk.damaged_at)
            read, offset = _read_behind, chunk.damaged_at


def _say_lost(partition: Partition, offset: int) -> None:
    log.error(
        "what was kept here is damaged, nobody has a copy, and it counts as lost",
        topic=partition.topic,
        partition=partition.index,
        offset=offset,
    )


def _read_at(source: PartitionLog, offset: int) -> _Chunk:
    """Some records from an offset on, as far as they are sound. On a worker thread."""
    try:
        piece = source.read(offset, LOAD_CHUNK_BYTES, source.end_offset)
    except CorruptMessage:
        return _Chunk([], offset, offset)
    return _decoded(source, piece, offset)


def _read_behind(source: PartitionLog, offset: int) -> _Chunk:
    """The records that follow a damaged batch, as far as they are sound. On a worker thread."""
    return _decoded(source, sound_behind(source, offset))


def _decoded(source: PartitionLog, piece: FileSlice | None, offset: int | None = None) -> _Chunk:
    if piece is None:
        return _Chunk([], source.end_offset)
    data, damaged_at = memoryview(piece.read()), None
    if offset is None:
        offset = read_header(data).base_offset
    if (fault := check_batches(data, offset, source.gaps_below)) is not None:
        data, damaged_at = data[: fault[0]], fault[1]
    records: list[Record] = []
    for at, header in iter_headers(data):
        records.extend(decode_records(data[at : at + header.size]))
        offset = header.next_offset
    return _Chunk(records, offset, damaged_at)
