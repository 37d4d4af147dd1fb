"""What the upkeep of a table should do next: decisions without a clock or a disk.

Small files are merged in two steps, so that a row is written again about twice: many small ones
to a middling one, then middling ones to a large one. A day that has gone quiet is finished off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from nexus.pipeline.lake.datafile import DataFile

DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Sizes:
    """When files are worth merging, in rows."""

    small: int = 250_000  # a file with fewer is merged with its like, in memory
    large: int = 8_000_000  # a file is left alone when it has half of that
    least_files: int = 8  # to be worth it while a day is written
    most_files: int = 256  # small ones
    most_middling: int = 16  # read side by side


USUAL_SIZES: Final = Sizes()


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one partition that become one."""

    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def gain(self) -> float:
        """Files fewer for each row that is written again."""
        return (len(self.files) - 1) / max(self.rows, 1)


def merges(
    files: Iterable[DataFile], now: datetime, rows_max: int, sizes: Sizes = USUAL_SIZES
) -> list[Merge]:
    """What to merge now, the most worthwhile first, of about `rows_max` rows in all."""
    found = [
        merge
        for group in _by_partition(files).values()
        for merge in _merges_of(group, sizes, quiet=_is_quiet(group, now))
    ]
    chosen: list[Merge] = []
    rows = 0
    for merge in sorted(found, key=lambda merge: merge.gain, reverse=True):
        if chosen and rows + merge.rows > rows_max:
            break
        chosen.append(merge)
        rows += merge.rows
    return chosen


def expired(
    files: Iterable[DataFile], now: datetime, keep: timedelta, days_max: int
) -> list[DataFile]:
    """The files of days that are over and done with, the oldest days first.

    A day goes as a whole, when its times and what came last into it are both older than `keep`:
    an archive that was imported yesterday stays, however old its readings are.
    """
    gone = [
        (day, group)
        for (day, *_), group in _by_partition(files).items()
        if _ended(day) <= now - keep and all(_arrived(file) <= now - keep for file in group)
    ]
    return [file for _, group in sorted(gone, key=lambda g: g[0])[:days_max] for file in group]


def _merges_of(group: Sequence[DataFile], sizes: Sizes, *, quiet: bool) -> list[Merge]:
    by_age = sorted(group, key=lambda file: (file.modified_ms, file.path))
    least = 2 if quiet else sizes.least_files
    small = [file for file in by_age if file.rows < sizes.small]
    middling = [file for file in by_age if sizes.small <= file.rows < sizes.large // 2]
    if quiet:  # what is left over need not wait for its like
        middling, small = ([*middling, *small], []) if len(small) < 2 else (middling, small)
    return [
        *_packed(small, least, sizes.most_files, 2 * sizes.small),
        *_packed(middling, least, sizes.most_middling, sizes.large),
    ]


def _packed(
    files: Sequence[DataFile], least_files: int, most_files: int, rows_max: int
) -> list[Merge]:
    """Neighbours in age put together until one file's worth of rows is full."""
    packs: list[list[DataFile]] = []
    rows = 0
    for file in files:
        if not packs or len(packs[-1]) >= most_files or rows + file.rows > rows_max:
            packs.append([])
            rows = 0
        packs[-1].append(file)
        rows += file.rows
    # A pack that is full is worth it with few files, too.
    return [
        Merge(tuple(pack))
        for number, pack in enumerate(packs)
        if len(pack) >= (least_files if number == len(packs) - 1 else 2)
    ]


def _by_partition(files: Iterable[DataFile]) -> dict[tuple[str, ...], list[DataFile]]:
    groups: defaultdict[tuple[str, ...], list[DataFile]] = defaultdict(list)
    for file in files:
        groups[tuple(file.partition.values())].append(file)
    return groups


def _is_quiet(group: Sequence[DataFile], now: datetime) -> bool:
    """Whether nothing has come for an hour: the day is over, or an import has ended."""
    newest = max(file.modified_ms for file in group)
    return newest / 1000 < (now - timedelta(hours=1)).timestamp()


def _ended(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC) + DAY


def _arrived(file: DataFile) -> datetime:
    """When the newest row came into the table: what it says itself, or else its file."""
    written = datetime.fromtimestamp(file.modified_ms / 1000, UTC)
    ingested: tuple[datetime, datetime] | None = file.bounds.get("ingested")
    return written if ingested is None else ingested[1]
