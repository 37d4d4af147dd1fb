"""The producer snapshots of a partition: files named by the offset up to which they hold."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from nexus.log.files import remove_file, write_file
from nexus.log.producers import Snapshot, decode_snapshot, encode_snapshot

_log: Final = logging.getLogger(__name__)
SUFFIX: Final = ".snapshot"


def write_snapshot(directory: Path, snapshot: Snapshot, *, durable: bool) -> None:
    """Write a snapshot. One that is not `durable` may be damaged by a power cut, and is checked."""
    path = directory / f"{snapshot.offset:020d}{SUFFIX}"
    write_file(path, encode_snapshot(snapshot), durable=durable)


def newest_snapshot(directory: Path, offsets: list[int], limit: int | None) -> Snapshot | None:
    """The newest sound snapshot of those at the given offsets, none of them beyond a limit."""
    for offset in sorted(offsets, reverse=True):
        path = directory / f"{offset:020d}{SUFFIX}"
        if limit is not None and offset > limit:
            continue
        snapshot = decode_snapshot(path.read_bytes())
        if snapshot is not None and snapshot.offset == offset:
            return snapshot
        _log.warning("a producer snapshot is damaged and was left out: %s", path)
    return None


def snapshot_offsets(directory: Path) -> list[int]:
    """The offsets of all snapshots there are."""
    names = (path.name for path in directory.iterdir())
    return sorted(int(name[:20]) for name in names if is_snapshot(name))


def is_snapshot(name: str) -> bool:
    """Whether a file's name is one of a snapshot."""
    return len(name) == 20 + len(SUFFIX) and name[:20].isdigit() and name.endswith(SUFFIX)


def remove_snapshots(directory: Path, *, keep: set[int] | None = None, above: int = -1) -> None:
    """Remove the snapshots above an offset, except for those to keep."""
    for offset in snapshot_offsets(directory):
        if offset > above and offset not in (keep or ()):
            remove_file(directory / f"{offset:020d}{SUFFIX}")
