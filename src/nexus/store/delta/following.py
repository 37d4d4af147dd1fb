"""Follows the logs of the store's tables, and pins one version of each for a question.

Derived tables are looked at before `readings`: what a rollup was made of is then never newer than
the readings beside it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from nexus.lake.datafile import file_of_add
from nexus.lake.errors import HistoryGone, StoreError
from nexus.lake.fence import READINGS_APP, REMOVED_APP
from nexus.lake.history import commits
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.store.delta.listing import Listing, held, listing_of
from nexus.store.errors import StoreAway
from nexus.store.questions.held import Held
from nexus.telemetry.tables import TABLES, TableSpec

CLOSED_APP: Final = "closed"  # in rollups: seconds since 1970; all windows before are stored
DERIVED: Final = ("rollup_1h", "rollup_1m", "latest", "gpus")
FOLLOWED: Final = (*DERIVED, "readings", "quarantine")
# Commits that are read one by one; if there are more, the files are listed anew.
COMMITS_MAX: Final = 64
# Commits behind the readings that a derived table may be for its rows to be of any use.
BEHIND_MAX: Final = 5_000

Commit = Sequence[Mapping[str, Any]]


class Arrival(NamedTuple):
    """A file with readings that a commit brought."""

    version: int
    file: Held


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What came to `readings` after the version `since`, up to `upto`."""

    since: int
    upto: int
    files: tuple[Arrival, ...] = ()

    def after(self, version: int | None) -> list[Held] | None:
        """What came after a version; None if nobody knows."""
        if version is None or version < self.since:
            return None
        return [arrival.file for arrival in self.files if arrival.version > version]


@dataclass(frozen=True, slots=True)
class Pins:
    """One version of each table that exists, and what came to `readings` of late."""

    tables: Mapping[str, Listing] = field(default_factory=dict)
    arrivals: Arrivals = field(default_factory=lambda: Arrivals(0, 0))
    at: float = -1e9  # of the monotonic clock
    era: int = 0  # counts how often tables were opened anew, and may be others than they were

    def stands_for(self, name: str) -> int | None:
        """The version of `readings` that a derived table stands for."""
        table = self.tables.get(name)
        return None if table is None else table.numbers.get(READINGS_APP)

    def closed_s(self, name: str) -> int | None:
        """All windows of a rollup that begin before are stored."""
        table = self.tables.get(name)
        return None if table is None else table.numbers.get(CLOSED_APP)


class Following:
    """All tables of a store; for one thread at a time."""

    def __init__(self, store: StoreUrl) -> None:
        self._store = store
        self._tables = {name: _Followed(store, TABLES[name]) for name in FOLLOWED}
        self._arrivals: Arrivals | None = None
        self._forgotten = -1  # the version up to which the log does not go back any more

    def look(self) -> Pins:
        """The newest versions; only new commits are read. StoreAway if that cannot be."""
        at = time.monotonic()
        try:
            seen = {name: followed.look() for name, followed in self._tables.items()}
            tables = {name: listing for name, listing in seen.items() if listing is not None}
            pins = Pins(tables, at=at, era=sum(f.opened for f in self._tables.values()))
            return replace(pins, arrivals=self._arrived(pins))
        except (StoreError, OSError) as error:
            first, *_ = str(error).splitlines() or [type(error).__name__]
            raise StoreAway(first) from error

    def forget(self) -> None:
        """Look at everything anew: a table may have been removed, and made again."""
        for followed in self._tables.values():
            followed.forget()
        self._arrivals, self._forgotten = None, -1

    def removed(self, day: str) -> bool:
        """Whether retention removed readings of a day: what was derived of it is all there is."""
        return self._tables["readings"].removed(day)

    def _arrived(self, pins: Pins) -> Arrivals:
        readings = pins.tables.get("readings")
        if readings is None:
            return Arrivals(0, 0)
        version = readings.version
        standing = [v for name in DERIVED if (v := pins.stands_for(name)) is not None]
        wanted = max(min(standing, default=version), version - BEHIND_MAX, self._forgotten)
        known = self._arrivals
        if known is None or not known.since <= wanted <= known.upto <= version:
            known = Arrivals(wanted, wanted)
        known = self._up_to(known, version)
        kept = tuple(arrival for arrival in known.files if arrival.version > wanted)
        self._arrivals = replace(known, since=max(known.since, wanted), files=kept)
        return self._arrivals

    def _up_to(self, known: Arrivals, version: int) -> Arrivals:
        """With what came up to a version; nothing is known any more if the log is cut off."""
        followed = self._tables["readings"]
        new = [commit for commit in followed.new if commit[0] > known.upto]
        if len(new) != version - known.upto:  # a look was cut short, or skipped some
            try:
                new = followed.read(known.upto, version)
            except HistoryGone:
                self._forgotten = version
                return Arrivals(version, version)
        return _grown(known, new, version)


class _Followed:
    """One table, with its newest listing."""

    def __init__(self, store: StoreUrl, spec: TableSpec) -> None:
        self._store = store
        self._spec = spec
        self._table: LakeTable | None = None
        self._listing: Listing | None = None
        self.opened = 0
        self._asked: dict[str, int | None] = {}  # numbers as of when the files were last listed
        self.new: list[tuple[int, Commit]] = []  # what the last look read

    def look(self) -> Listing | None:
        self.new = []
        table = self._refreshed()
        if table is None:
            return None
        if self._listing is None or table.version != self._listing.version:
            self._listing = self._at(table, table.version)
        return self._listing

    def forget(self) -> None:
        self._table = self._listing = None

    def removed(self, day: str) -> bool:
        if self._table is None or self._listing is None:
            return False
        app = f"{REMOVED_APP}{day}"
        if self._listing.numbers.get(app) is not None:  # a commit said so that was read here
            return True
        if app not in self._asked:
            self._asked[app] = self._table.transaction_version(app)
        return self._asked[app] is not None

    def read(self, after: int, upto: int) -> list[tuple[int, Commit]]:
        """The commits (after, upto] of the log; HistoryGone if it does not have them all."""
        assert self._table is not None
        read = commits(self._table.files_of.filesystem(), self._spec, after, upto)
        return list(enumerate(read, after + 1))

    def _refreshed(self) -> LakeTable | None:
        """The table at its newest version; None if there is none."""
        if self._table is not None:
            try:
                self._table.refresh()
            except StoreError:
                self.forget()  # it may have been removed, and made again
        if self._table is None:
            self._table = LakeTable.find(self._store, self._spec)
            self.opened += self._table is not None
        return self._table

    def _at(self, table: LakeTable, version: int) -> Listing:
        last = self._listing
        if last is not None and 0 < version - last.version <= COMMITS_MAX:
            with suppress(HistoryGone):
                self.new = self.read(last.version, version)
                return last.after(version, (actions for _, actions in self.new))
        self._asked.clear()
        numbers = {app: table.transaction_version(app) for app in (READINGS_APP, CLOSED_APP)}
        return listing_of(self._spec, version, table.files(), numbers)


def _grown(known: Arrivals, new: Sequence[tuple[int, Commit]], upto: int) -> Arrivals:
    """With the files of further commits, less those that they took away again."""
    if not new:
        return known
    files = {arrival.file.path: arrival for arrival in known.files}
    spec = TABLES["readings"]
    for version, actions in new:
        for action in actions:
            if (add := action.get("add")) and add["dataChange"]:
                files[add["path"]] = Arrival(version, held(file_of_add(add, spec)))
            elif (remove := action.get("remove")) and remove["dataChange"]:
                files.pop(remove["path"], None)
    return Arrivals(known.since, upto, tuple(files.values()))
