"""What the upkeep of a table should do next: decisions without a clock or a disk.

Files are merged with their like, step by step, so that a row is written again once a step: many
small ones to a middling one, then middling ones to a large one. A day that has gone quiet is
finished off, and one that has long been so is put into larger files still.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from nexus.lake.datafile import DataFile

DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Step:
    """Files with fewer rows than `below` become files of at most `rows`."""

    below: int
    rows: int
    files: int  # at most, in one merge


@dataclass(frozen=True, slots=True)
class Sizes:
    """When files are worth merging."""

    # Small files are sorted in memory, all at once; larger ones are read side by side. Larger
    # still would make late readings dear, which are looked up in the files of their time.
    steps: tuple[Step, ...] = (Step(250_000, 500_000, 256), Step(4_000_000, 8_000_000, 16))
    archive: Step = Step(16_000_000, 32_000_000, 8)  # of a day that nothing is added to
    least_files: int = 8  # to be worth it while a day is written
    quiet: timedelta = timedelta(hours=1)
    archived: timedelta = timedelta(days=1)


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
        for merge in _merges_of(group, sizes, _quiet_for(group, now))
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


def _merges_of(group: Sequence[DataFile], sizes: Sizes, quiet_for: timedelta) -> list[Merge]:
    is_quiet = quiet_for >= sizes.quiet
    steps = [*sizes.steps, *([sizes.archive] if quiet_for >= sizes.archived else [])]
    waiting = sorted(group, key=lambda file: (file.modified_ms, file.path))
    found: list[Merge] = []
    left: list[DataFile] = []
    for step in steps:
        of_step = [*left, *(file for file in waiting if file.rows < step.below)]
        waiting = [file for file in waiting if file.rows >= step.below]
        # On a quiet day, what is left over need not wait for its like.
        left = of_step if is_quiet and len(of_step) == 1 else []
        found += _packed(of_step, 2 if is_quiet else sizes.least_files, step)
    return found


def _packed(files: Sequence[DataFile], least_files: int, step: Step) -> list[Merge]:
    """Neighbours in age put together until one file's worth of rows is full."""
    packs: list[list[DataFile]] = []
    rows = 0
    for file in files:
        if not packs or len(packs[-1]) >= step.files or rows + file.rows > step.rows:
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


def _quiet_for(group: Sequence[DataFile], now: datetime) -> timedelta:
    """For how long nothing has come: the day is over, or an import has ended."""
    newest = max(file.modified_ms for file in group)
    return now - datetime.fromtimestamp(newest / 1000, UTC)


def _ended(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC) + DAY


def _arrived(file: DataFile) -> datetime:
    """When the newest row came into the table: what it says itself, or else its file."""
    written = datetime.fromtimestamp(file.modified_ms / 1000, UTC)
    ingested: tuple[datetime, datetime] | None = file.bounds.get("ingested")
    return written if ingested is None else ingested[1]
