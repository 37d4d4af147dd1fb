"""The crash-safe exchange of segments that compaction rewrote, and what it remembers of its runs.

New files are complete under other names before `compaction-swap` commits the exchange; after a
crash it is either carried out to the end or never happened.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

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
        cleaned = final.with_name(f"{final.name}{CLEANED}")
        if cleaned.exists():
            cleaned.rename(final)
    sync_directory(directory)
    remove_file(directory / SWAP_FILE)
    sync_directory(directory)


def _remove_cleaned(directory: Path) -> None:
    for path in directory.iterdir():
        if path.suffix == CLEANED:
            remove_file(path)


class Pass(NamedTuple):
    """A run of compaction: what lies before an offset was cleaned then, and these tombstones left.

    A run whose tombstones went has time 0.
    """

    offset: int
    time_ms: int
    tombstones: int


class Cleaner(NamedTuple):
    """What is remembered of past runs, and up to where batches may have gaps between them."""

    gaps_below: int = 0
    passes: tuple[Pass, ...] = ()

    @property
    def cleaned_to(self) -> int:
        """Where the part that was never cleaned begins."""
        return self.passes[-1].offset if self.passes else 0


def read_cleaner(directory: Path) -> Cleaner:
    """What past runs left; nothing, where there was none."""
    try:
        record = json.loads((directory / CLEANER_FILE).read_bytes())
        passes = tuple(Pass(*map(int, one)) for one in record["passes"])
        return Cleaner(int(record["gaps_below"]), passes)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Cleaner()


def write_cleaner(directory: Path, cleaner: Cleaner) -> None:
    """Remember it, durably."""
    record = {"version": 1, "gaps_below": cleaner.gaps_below, "passes": cleaner.passes}
    write_file(directory / CLEANER_FILE, json.dumps(record).encode("ascii"))
