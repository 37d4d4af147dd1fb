"""Walks over the batches of a log file, reading no more of it than the walk needs.

A walk ends where the file does or where what follows cannot be a batch; whoever walks compares
the position it reached with the one it wanted. The file stays open for as long as the walk lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nexus.log.files import OpenFile, read_at
from nexus.wire.batch import HEADER_BYTES, MAGIC, MIN_LENGTH, BatchHeader, read_header

HEADERS_CHUNK_BYTES: Final = 4096
BATCHES_CHUNK_BYTES: Final = 1 << 20


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


def _chunk(file: OpenFile, at: int, size: int) -> memoryview:
    return memoryview(read_at(file.fd, size, at))
