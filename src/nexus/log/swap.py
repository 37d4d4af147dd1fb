"""The crash-safe exchange of segments that compaction rewrote, and what it remembers of its runs.

New files are complete under other names before `compaction-swap` commits the exchange; after a
crash it is either carried out to the end or never happened.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from nexus.log.files import remove_file, sync_directory, write_file

SWAP_FILE: Final = "compaction-swap"
CLEANER_FILE: Final = "cleaner-checkpoint"
CLEANED: Final = ".cleaned"
_SUFFIXES: Final = (".log", ".index", ".timeindex")


def commit_swap(directory: Path, new: int, replaced: list[int]) -> None:
    """The point of no return: the cleaned files of segment `new` stand for those replaced."""
    sync_directory(directory)
    record = {"version": 1, "new": new, "replaced": replaced}
    write_file(directory / SWAP_FILE, json.dumps(record).encode("ascii"))


def finish_swap(directory: Path) -> None:
    """Carry out an exchange that was committed; remove cleaned files of one that was not."""
    try:
        record = json.loads((directory / SWAP_FILE).read_bytes())
    except FileNotFoundError:
        _remove_cleaned(directory)
        return
    new = int(record["new"])
    for base in record["replaced"]:
        if base != new:
            for suffix in _SUFFIXES:
                remove_file(directory / f"{base:020d}{suffix}")
    for suffix in reversed(_SUFFIXES):
        final = directory / f"{new:020d}{suffix}"
        if os.path.exists(f"{final}{CLEANED}"):
            os.rename(f"{final}{CLEANED}", final)
    sync_directory(directory)
    remove_file(directory / SWAP_FILE)
    sync_directory(directory)


def _remove_cleaned(directory: Path) -> None:
    for name in os.listdir(directory):
        if name.endswith(CLEANED):
            remove_file(directory / name)


def read_passes(directory: Path) -> list[tuple[int, int]]:
    """The (offset, time) of past runs: what lies before the offset was first cleaned then."""
    try:
        record = json.loads((directory / CLEANER_FILE).read_bytes())
        return [(int(offset), int(time_ms)) for offset, time_ms in record["passes"]]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []


def write_passes(directory: Path, passes: list[tuple[int, int]]) -> None:
    """Remember the runs, durably."""
    record = {"version": 1, "passes": passes}
    write_file(directory / CLEANER_FILE, json.dumps(record).encode("ascii"))


def cleaned_to(directory: Path) -> int:
    """The offset before which batches may have gaps between them."""
    return max((offset for offset, _ in read_passes(directory)), default=0)
