"""Small files of the newest readings, folded into few local ones while somebody asks for them.

A collector commits a small file every few seconds, and the upkeep merges them now and then. To
open hundreds of them costs more than to read them. So copies of them are kept beside the
database, in files like those that the upkeep makes; they are used in place of the small files
while all of these are in the version that is asked.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from nexus.lake.files import NewFile, TableFiles
from nexus.lake.merge import merged
from nexus.lake.url import StoreUrl
from nexus.store.delta.listing import Listing
from nexus.store.questions.held import Held
from nexus.telemetry.tables import TABLES

_log: Final = logging.getLogger(__name__)

SMALL_ROWS: Final = 100_000
FOLDED_AT_ONCE: Final = 16  # files of a kind become one
TIERS: Final = 2  # so often a row is written, at most
DAYS: Final = 3  # the newest, in which files arrive
BYTES_MAX: Final = 512 * 1024 * 1024
LINGER_S: Final = 120.0  # that a fold stays after its time, for questions that have begun
_READ_ROWS: Final = 131_072
_SPEC: Final = TABLES["readings"]


class Fold(NamedTuple):
    """A local file with the rows of several files of the table."""

    file: Held  # its path is absolute
    paths: frozenset[str]
    day: str
    tier: int


@dataclass(frozen=True, slots=True)
class Folds:
    """What is folded, for one question."""

    found: tuple[Fold, ...] = ()

    def instead(self, listing: Listing, files: Sequence[Held]) -> list[Held]:
        """The files, with folds in the place of those that they hold."""
        wanted = {file.path for file in files}
        used = [f for f in self.found if not wanted.isdisjoint(f.paths) and _stands(f, listing)]
        if not used:
            return list(files)
        replaced = frozenset[str]().union(*(fold.paths for fold in used))
        rest = [file for file in files if file.path not in replaced]
        return [*rest, *(fold.file for fold in used)]


class Folder:
    """Folds files in a thread of its own, when it is shown that there are many."""

    def __init__(self, store: StoreUrl, folder: Path) -> None:
        self._source = TableFiles(store, _SPEC)
        self._target = TableFiles(StoreUrl(str(folder)), _SPEC)
        self._root = Path(StoreUrl(str(folder)).table_uri(_SPEC.name))
        self._changed = threading.Condition()
        self._newest: Listing | None = None
        self._closed = False
        self._idle = True
        self.folds = Folds()
        self._gone: list[tuple[float, Held]] = []
        self._thread: threading.Thread | None = None

    def show(self, listing: Listing | None) -> None:
        """Take note of the newest version; the work is done elsewhere."""
        if listing is None or _due(listing, self.folds) is None:
            return
        with self._changed:
            self._newest = listing
            self._changed.notify_all()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="store-fold", daemon=True)
                self._thread.start()

    def settle(self, timeout_s: float) -> bool:
        """Wait until nothing more is to be folded of what was shown."""
        with self._changed:
            return self._changed.wait_for(lambda: self._newest is None and self._idle, timeout_s)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (listing := self._next()) is not None:
            try:
                self._fold_all(listing)
            except (OSError, pa.ArrowException) as error:
                _log.info("small files were not folded: %s", error)
            with self._changed:
                self._idle = True
                self._changed.notify_all()

    def _next(self) -> Listing | None:
        with self._changed:
            self._changed.wait_for(lambda: self._newest is not None or self._closed)
            listing, self._newest = self._newest, None
            self._idle = False
            return None if self._closed else listing

    def _fold_all(self, listing: Listing) -> None:
        self._drop(listing)
        while not self._closed and (due := _due(listing, self.folds)) is not None:
            self.folds = due.done(self.folds, self._folded(due))
            self._remove(fold.file for fold in due.folds)

    def _folded(self, due: Due) -> Held:
        rows = merged(_SPEC, [self._read(file.path) for file in due.files])
        with self._target.writer({"day": due.day}) as writer:
            for piece in rows:
                writer.write(piece)
        made: NewFile | None = writer.file
        assert made is not None
        bounds = [file.uuids for file in due.files if file.uuids is not None]
        uuids = (min(b[0] for b in bounds), max(b[1] for b in bounds)) if bounds else None
        return Held(
            str(self._root / made.path),
            made.rows,
            made.size,
            min(file.low for file in due.files),
            max(file.high for file in due.files),
            uuids if len(bounds) == len(due.files) else None,
        )

    def _read(self, path: str) -> Iterator[pa.RecordBatch]:
        if path.startswith("/"):
            return self._target.read_in_order(str(Path(path).relative_to(self._root)), _READ_ROWS)
        return self._source.read_in_order(path, _READ_ROWS)

    def _drop(self, listing: Listing) -> None:
        """Let go of folds whose files the upkeep has merged."""
        gone = [fold for fold in self.folds.found if not _stands(fold, listing)]
        if gone:
            self.folds = Folds(tuple(fold for fold in self.folds.found if fold not in gone))
            self._remove(fold.file for fold in gone)

    def _remove(self, files: Iterable[Held]) -> None:
        now = time.monotonic()
        self._gone += ((now, file) for file in files)
        for since, file in self._gone:
            if now - since > LINGER_S:
                Path(file.path).unlink(missing_ok=True)
        self._gone = [(since, file) for since, file in self._gone if now - since <= LINGER_S]


@dataclass(frozen=True, slots=True)
class Due:
    """Files, or folds, that are to become one."""

    day: str
    files: Sequence[Held]
    folds: Sequence[Fold]
    tier: int

    def done(self, before: Folds, file: Held) -> Folds:
        own = frozenset(f.path for f in self.files if not self.folds)
        paths = own.union(*(fold.paths for fold in self.folds))
        kept = tuple(fold for fold in before.found if fold not in self.folds)
        return Folds((*kept, Fold(file, paths, self.day, self.tier)))


def _due(listing: Listing, folds: Folds) -> Due | None:
    """What to fold next, if there is enough of a kind."""
    if sum(fold.file.size for fold in folds.found) > BYTES_MAX:
        return None
    for day in sorted(listing.days)[-DAYS:]:
        held = listing.days[day]
        of_day = [f for f in folds.found if f.day == day and f.paths <= held.keys()]
        for tier in range(1, TIERS):
            alike = [fold for fold in of_day if fold.tier == tier][:FOLDED_AT_ONCE]
            if len(alike) >= FOLDED_AT_ONCE:
                return Due(day, [fold.file for fold in alike], alike, tier + 1)
        small = _unfolded(held, of_day)
        if len(small) >= FOLDED_AT_ONCE:
            return Due(day, small[:FOLDED_AT_ONCE], (), 1)
    return None


def _unfolded(held: Mapping[str, Held], folds: Sequence[Fold]) -> list[Held]:
    if len(held) < FOLDED_AT_ONCE:
        return []
    done = frozenset[str]().union(*(fold.paths for fold in folds))
    small = (f for path, f in held.items() if f.rows < SMALL_ROWS and path not in done)
    return list(small)


def _stands(fold: Fold, listing: Listing) -> bool:
    held = listing.days.get(fold.day)
    return held is not None and fold.paths <= held.keys()
