"""Reads a partition's files without any of the product's code: an independent witness."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class StoredBatch(NamedTuple):
    """What the 61 bytes before the records say, and where they lie."""

    file: Path
    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    codec: str
    log_append_time: bool
    max_timestamp: int
    producer_id: int
    base_sequence: int
    records: int


def partition_dir(data_dir: Path, topic: str, partition: int = 0) -> Path:
    return data_dir / "topics" / topic / f"partition-{partition}"


def stored_batches(data_dir: Path, topic: str, partition: int = 0) -> list[StoredBatch]:
    """Every batch of a partition in file order; a torn tail is left out."""
    files = sorted(partition_dir(data_dir, topic, partition).glob("*.log"))
    return [batch for file in files for batch in _batches_in(file)]


def _batches_in(file: Path) -> Iterator[StoredBatch]:
    data = file.read_bytes()
    at = 0
    while at + _HEADER.size <= len(data):
        header = _HEADER.unpack_from(data, at)
        size = header[1] + 12
        if header[3] != 2 or at + size > len(data):
            return
        yield _stored(file, at, size, header)
        at += size


def _stored(file: Path, at: int, size: int, header: tuple[int, ...]) -> StoredBatch:
    base, attributes = header[0], header[5]
    return StoredBatch(
        file=file,
        position=at,
        size=size,
        base_offset=base,
        last_offset=base + header[6],
        leader_epoch=header[2],
        codec=CODECS[attributes & 7],
        log_append_time=bool(attributes & 8),
        max_timestamp=header[8],
        producer_id=header[9],
        base_sequence=header[11],
        records=header[12],
    )
