"""Walks over the batches of a log file, reading no more of it than the walk needs.

A walk ends where the file does or where what follows cannot be a batch; whoever walks compares
the position it reached with the one it wanted. The file stays open for as long as the walk lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nexus.log.files import OpenFile, read_at
from nexus.wire.batch import HEADER_BYTES, MAGIC, MIN_LENGTH, BatchHeader, crc_of, read_header

HEADERS_CHUNK_BYTES: Final = 4096
BATCHES_CHUNK_BYTES: Final = 1 << 20
_MAGIC_AT: Final = 16


def headers(
    file: OpenFile, start: int, end: int, chunk_bytes: int = HEADERS_CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch between two positions; nothing is checksummed."""
    at, chunk, chunk_at = start, b"", start
    while end - at >= HEADER_BYTES:
        within = at - chunk_at
        if within + HEADER_BYTES > len(chunk):
            chunk, chunk_at, within = read_at(file.fd, min(chunk_bytes, end - at), at), at, 0
            if len(chunk) < HEADER_BYTES:
                return
        header = read_header(chunk, within)
        if not plausible(header, end - at):
            return
        yield at, header
        at += header.size


def batches(
    file: OpenFile, start: int, end: int, chunk_bytes: int = BATCHES_CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each whole batch between two positions, not checksummed."""
    at, chunk, chunk_at = start, memoryview(b""), start
    while end - at >= HEADER_BYTES:
        within = at - chunk_at
        available = len(chunk) - within
        if available < HEADER_BYTES:
            chunk, chunk_at, within = _chunk(file, at, min(chunk_bytes, end - at)), at, 0
            available = len(chunk)
            if available < HEADER_BYTES:
                return
        header = read_header(chunk, within)
        if not plausible(header, end - at):
            return
        if header.size > available:
            wanted = min(max(chunk_bytes, header.size), end - at)
            chunk, chunk_at, within = _chunk(file, at, wanted), at, 0
            if header.size > len(chunk):
                return
        yield at, header, chunk[within : within + header.size]
        at += header.size


def plausible(header: BatchHeader, available: int) -> bool:
    """Whether a header can be one of a batch that ends within the bytes that follow."""
    return (
        header.magic == MAGIC
        and header.length >= MIN_LENGTH
        and header.size <= available
        and header.last_offset_delta >= 0
    )


def next_batch(file: OpenFile, start: int, end: int, offsets: range) -> int | None:
    """Where the first sound batch with one of these offsets begins, wherever in a file that is.

    For what lies behind damage that hides how long the damaged batch was.
    """
    data = memoryview(read_at(file.fd, end - start, start))
    raw = data.obj
    assert isinstance(raw, bytes)
    at = raw.find(MAGIC, _MAGIC_AT)
    while at >= 0:
        begin = at - _MAGIC_AT
        if len(data) - begin < HEADER_BYTES:
            return None
        header = read_header(data, begin)
        if header.base_offset in offsets and plausible(header, len(data) - begin):
            batch = data[begin : begin + header.size]
            if crc_of(batch) == header.crc:
                return start + begin
        at = raw.find(MAGIC, at + 1)
    return None


def _chunk(file: OpenFile, at: int, size: int) -> memoryview:
    return memoryview(read_at(file.fd, size, at))
