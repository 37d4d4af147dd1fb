"""Looks at a partition's files from outside: changes nothing, and a broker may write meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

from nexus.log.config import LogConfig
from nexus.log.files import FileSlice, OpenFile
from nexus.log.layout import is_segment
from nexus.log.segment import Segment
from nexus.log.swap import read_cleaner
from nexus.log.verify import Corruption, verify_segments

_EVERYWHERE = 2**63 - 1


def data_bytes(directory: Path) -> int:
    """How much there is to read in a partition's directory."""
    return sum(_segment_sizes(directory).values())


def verify_partition(directory: Path, *, compacted: bool) -> list[Corruption]:
    """Every batch against its checksum and its neighbours. Raises OSError."""
    found = _check(directory, compacted)
    if not found:
        return []
    # A broker that writes, compacts or deletes meanwhile can look like damage: but not twice.
    again = set(_check(directory, compacted))
    return [corruption for corruption in found if corruption in again]


def _check(directory: Path, compacted: bool) -> list[Corruption]:
    gaps_below = _EVERYWHERE if compacted else read_cleaner(directory).gaps_below
    try:
        return list(verify_segments(_segments(directory), gaps_below))
    except FileNotFoundError:
        return _check(directory, compacted)


def _segments(directory: Path) -> list[tuple[Segment, FileSlice]]:
    config = LogConfig()
    found = []
    for base_offset, size in sorted(_segment_sizes(directory).items()):
        segment = Segment(directory, base_offset, size, config)
        found.append((segment, FileSlice(OpenFile(segment.path, os.O_RDONLY), 0, size)))
    return found


def _segment_sizes(directory: Path) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for path in directory.iterdir():
        if is_segment(path.name):
            try:
                sizes[int(path.stem)] = path.stat().st_size
            except FileNotFoundError:
                continue
    return sizes
