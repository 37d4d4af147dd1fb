"""The upkeep of a store, inside its lock: a bounded piece of work each time it is called.

Old days go, small files are merged, the log is cleaned as far as its followers have read it, and
files that nobody can be reading any more are removed. Readers are not disturbed by any of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from nexus.lake.compaction import Stopped, compact
from nexus.lake.datafile import DataFile
from nexus.lake.errors import Fenced, HistoryGone, StoreError
from nexus.lake.fence import READINGS_APP, REMOVED_APP, Fence
from nexus.lake.history import commit_name
from nexus.lake.plan import USUAL_SIZES, Merge, Sizes, Step, expired, merges
from nexus.lake.table import LOG_KEPT, LakeTable
from nexus.lake.url import StoreUrl
from nexus.telemetry.tables import TABLES, TableSpec

_log: Final = logging.getLogger(__name__)

_FAILURES: Final = (StoreError, DeltaError, OSError, pa.ArrowException)

RETENTION: Final[Mapping[str, timedelta]] = MappingProxyType(
    {
        "readings": timedelta(days=30),
        "quarantine": timedelta(days=30),
        "rollup_1m": timedelta(days=90),
        "rollup_1h": timedelta(days=730),
    }
)
# Who follows the log of `readings`: each keeps the version it has read to in its own commits.
SOURCE: Final = "readings"
FOLLOWERS: Final = ("rollup_1m", "rollup_1h", "latest", "gpus")
PENDING_VERSIONS: Final = 5_000  # behind that far, a follower is let catch up first
LOG_HELD: Final = timedelta(days=7)  # and no longer than that: it then starts from a snapshot


# Late readings replace rows of derived tables, and with them whole files: these stay smaller.
DERIVED_SIZES: Final = Sizes(steps=(Step(100_000, 250_000, 256), Step(500_000, 1_000_000, 16)))
STREAMED: Final = ("readings", "quarantine")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may do, and how long things are kept."""

    merge_rows: int = 32_000_000  # written again in one run, of all tables: half a minute of work
    days: int = 16  # removed in one run, of each table
    sizes: Sizes = USUAL_SIZES
    derived_sizes: Sizes = DERIVED_SIZES
    retention: Mapping[str, timedelta] = field(default_factory=lambda: RETENTION)
    # None: as the table says (VACUUM_KEPT). Shorter is for tests: it must be longer than the
    # longest batch, whose files nobody names before its commit, and the longest query.
    vacuum_hours: int | None = None


@dataclass(frozen=True, slots=True)
class TableReport:
    """What was done to one table."""

    table: str
    files: int  # that it has now
    merged: int = 0  # files that are one of the next now
    into: int = 0
    rows: int = 0  # that were written again
    days: int = 0  # that went by retention
    vacuumed: int = 0
    log_held: bool = False  # not cleaned: a follower still needs it
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did, by table."""

    tables: tuple[TableReport, ...]
    complete: bool  # False: stopped, or more is left than one run may do


def maintain(
    store: StoreUrl,
    fence: Fence,
    now: datetime | None = None,
    limits: Limits | None = None,
    *,
    stopped: Callable[[], bool] = lambda: False,
) -> Report:
    """One run over all tables that are there. Fenced if the store is another's by now.

    A table that fails is reported, and the others have their turn.
    """
    upkeep = _Upkeep(store, fence, now or datetime.now(UTC), limits or Limits(), stopped)
    reports = [report for spec in TABLES.values() if (report := upkeep.table(spec)) is not None]
    return Report(tuple(reports), complete=not (upkeep.has_more(reports) or stopped()))


def due(store: StoreUrl, now: datetime | None = None, limits: Limits | None = None) -> Report:
    """What runs would do as things are; nothing is changed, and no lock is needed."""
    nobody = Fence(0, "")
    upkeep = _Upkeep(store, nobody, now or datetime.now(UTC), limits or Limits(), lambda: False)
    found = (LakeTable.find(store, spec) for spec in TABLES.values())
    return Report(tuple(upkeep.due(table) for table in found if table is not None), complete=True)


def followed_upto(store: StoreUrl) -> int | None:
    """The version of `readings` that every follower has read to; None if there is none."""
    read = [_followed(store, TABLES[name]) for name in FOLLOWERS]
    return min((version for version in read if version is not None), default=None)


@dataclass(slots=True)
class _Merging:
    """What was merged so far."""

    merged: int = 0
    into: int = 0
    rows: int = 0
    problem: str = ""

    def count(self, merge: Merge) -> None:
        self.merged += len(merge.files)
        self.into += 1
        self.rows += merge.rows


class _Upkeep:
    """One run, with what is left of its limits."""

    def __init__(
        self,
        store: StoreUrl,
        fence: Fence,
        now: datetime,
        limits: Limits,
        stopped: Callable[[], bool],
    ) -> None:
        self.store, self.fence, self.now, self.limits = store, fence, now, limits
        self.stopped = stopped
        self.rows_left = limits.merge_rows

    def has_more(self, reports: Sequence[TableReport]) -> bool:
        """Whether another run would go on: a limit was met, and something was done."""
        has_merged = any(report.into for report in reports)
        has_days = any(report.days >= self.limits.days for report in reports)
        return has_days or (has_merged and self.rows_left <= 0)

    def table(self, spec: TableSpec) -> TableReport | None:
        """Look after one table; None if it is not there."""
        if self.stopped():
            return None
        try:
            table = LakeTable.find(self.store, spec)
            return None if table is None else self._done(table)
        except Fenced:
            raise
        except _FAILURES as error:
            _log.warning("upkeep of table %s failed: %s", spec.name, error)
            return TableReport(spec.name, files=0, problem=str(error))

    def due(self, table: LakeTable) -> TableReport:
        """What there is to do for one table."""
        read = followed_upto(self.store) if table.spec.name == SOURCE else None
        pending = self._pending(table, read) or frozenset()
        planned = _Merging()
        for merge in self._worth(table, pending):
            planned.count(merge)
        return TableReport(
            table=table.spec.name,
            files=len(table.files()),
            merged=planned.merged,
            into=planned.into,
            rows=planned.rows,
            days=len({file.partition["day"] for file in self._old(table, pending)}),
            vacuumed=self._vacuum(table, dry_run=True),
        )

    def _done(self, table: LakeTable) -> TableReport:
        read = followed_upto(self.store) if table.spec.name == SOURCE else None
        pending = self._pending(table, read)
        days, merging = 0, _Merging()
        if pending is not None:
            days = self._expire(table, pending)
            merging = self._merge(table, pending)
        held = not self._clean_log(table, read)
        vacuumed = self._vacuum(table)
        table.refresh()
        return TableReport(
            table=table.spec.name,
            files=len(table.files()),
            merged=merging.merged,
            into=merging.into,
            rows=merging.rows,
            days=days,
            vacuumed=vacuumed,
            log_held=held,
            problem=merging.problem,
        )

    def _pending(self, table: LakeTable, read: int | None) -> frozenset[str] | None:
        """Files that a follower has yet to read, which must stay; None if too many to list."""
        if read is None:
            return frozenset()
        if table.version - read > PENDING_VERSIONS:
            return None
        try:
            return frozenset(file.path for file in table.added_between(read, table.version))
        except HistoryGone:
            return frozenset()  # that follower starts anew from a snapshot

    def _old(self, table: LakeTable, pending: frozenset[str]) -> list[DataFile]:
        """The files of days that are kept no longer."""
        keep = self.limits.retention.get(table.spec.name)
        if keep is None or not table.spec.partitions:
            return []
        gone = expired(table.files(), self.now, keep, self.limits.days)
        return [file for file in gone if file.path not in pending]

    def _expire(self, table: LakeTable, pending: frozenset[str]) -> int:
        gone = self._old(table, pending)
        days = {"-".join(file.partition.values()) for file in gone}
        if gone:
            removed = {f"{REMOVED_APP}{day}": 1 for day in days}
            table.commit((), gone, removed, self.fence, once=False)
        return len(days)

    def _worth(self, table: LakeTable, pending: frozenset[str]) -> list[Merge]:
        """What is worth merging, within the limits."""
        if not table.spec.partitions or self.rows_left <= 0:
            return []
        files = [file for file in table.files() if file.path not in pending]
        is_streamed = table.spec.name in STREAMED
        sizes = self.limits.sizes if is_streamed else self.limits.derived_sizes
        return merges(files, self.now, self.rows_left, sizes)

    def _merge(self, table: LakeTable, pending: frozenset[str]) -> _Merging:
        done = _Merging()
        for merge in self._worth(table, pending):
            self.rows_left -= merge.rows
            try:
                if compact(table, merge, self.fence, self.stopped) is not None:
                    done.count(merge)
            except Stopped:
                break
            except Fenced:
                raise
            except _FAILURES as error:  # a file that cannot be read is no reason to keep others
                _log.warning("table %s: files were not merged: %s", table.spec.name, error)
                done.problem = str(error)
        return done

    def _clean_log(self, table: LakeTable, read: int | None) -> bool:
        """Remove what is old of the log; False if a follower still needs some of that."""
        needed = _written(table, read + 1) if read is not None else None
        if needed is not None and self.now - LOG_HELD < needed < self.now - LOG_KEPT:
            return False
        table.delta.cleanup_metadata()
        return True

    def _vacuum(self, table: LakeTable, *, dry_run: bool = False) -> int:
        if self.stopped():
            return 0
        # A handle of its own, and no turn: listing may take long, and commits go on meanwhile.
        uri = self.store.table_uri(table.spec.name)
        removed = DeltaTable(uri, storage_options=self.store.storage_options).vacuum(
            retention_hours=self.limits.vacuum_hours,
            dry_run=dry_run,
            enforce_retention_duration=False,
            full=True,  # also files that no commit ever named: of batches that were cut short
        )
        return len(removed)


def _followed(store: StoreUrl, spec: TableSpec) -> int | None:
    table = LakeTable.find(store, spec)
    return None if table is None else table.transaction_version(READINGS_APP)


def _written(table: LakeTable, version: int) -> datetime | None:
    """When a commit was written; None if it is not in the log."""
    info = table.files_of.filesystem().get_file_info(commit_name(version))
    written: datetime | None = info.mtime
    return written
