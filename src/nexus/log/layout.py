"""What lies in a partition's directory: segments, snapshots, and the small files beside them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nexus.log.files import remove_file, sync_directory, write_file
from nexus.log.snapshots import is_snapshot

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIXES: Final = (".index", ".timeindex")
START_FILE: Final = "log-start-offset"
# Everything from this offset on has to be checked after a crash, whatever the recovery point.
UNCHECKED_FILE: Final = "unchecked-from"
_LEFTOVERS: Final = (".tmp", ".deleted")


@dataclass(slots=True)
class Listing:
    """The names that count: sizes of the segments by base offset, offsets of the snapshots."""

    segments: dict[int, int] = field(default_factory=dict)
    snapshots: list[int] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


def list_partition(directory: Path) -> Listing:
    """Look through a partition's directory, and remove what an interrupted write left behind."""
    listing = Listing()
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if is_segment(name):
                listing.segments[int(name[:20])] = entry.stat().st_size
            elif is_snapshot(name):
                listing.snapshots.append(int(name[:20]))
            elif name.endswith(_LEFTOVERS):
                remove_file(directory / name)
                continue
            listing.names.add(name)
    _remove_orphans(directory, listing)
    return listing


def is_segment(name: str) -> bool:
    """Whether a file's name is one of a segment's data."""
    return len(name) == 20 + len(LOG_SUFFIX) and name[:20].isdigit() and name.endswith(LOG_SUFFIX)


def _remove_orphans(directory: Path, listing: Listing) -> None:
    for name in list(listing.names):
        path = directory / name
        if path.suffix in INDEX_SUFFIXES and f"{path.stem}{LOG_SUFFIX}" not in listing.names:
            remove_file(path)
            listing.names.discard(name)


def read_offset(directory: Path, name: str) -> int | None:
    """The offset in one of the small files; None where there is none."""
    try:
        return int((directory / name).read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return None


def write_offset(directory: Path, name: str, offset: int) -> None:
    """Keep an offset in one of the small files, durably."""
    write_file(directory / name, f"{offset}\n".encode("ascii"))


def remove_offset(directory: Path, name: str) -> None:
    """Forget one of the small files, durably."""
    remove_file(directory / name)
    sync_directory(directory)
