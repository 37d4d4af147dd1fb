"""One Delta table: what it holds at a version, and commits that happen once and in turn.

Every commit carries the writer's fence and the number of the work it stands for. So a batch that
is played again is recognised, a writer that was replaced is refused, and two commits of one
process that meet are put in order instead of failing.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from nexus.lake.datafile import DataFile, data_file, time_column
from nexus.lake.errors import Fenced, FilesMoved, Replayed, StoreError
from nexus.lake.fence import WRITER_APP, Fence
from nexus.lake.files import NewFile, TableFiles, sync
from nexus.lake.history import added_files, commit_name
from nexus.lake.numbers import Numbers
from nexus.lake.stats import pruned_columns
from nexus.lake.url import StoreUrl
from nexus.telemetry.tables import TableSpec

ATTEMPTS: Final = 8
BACKOFF_S: Final = 0.02  # doubled each time: about five seconds in all
# A handle this young needs no look before a commit: every commit carries the fence, so delta-rs
# refuses one that did not see another's, and then we look.
FRESH_S: Final = 30.0
LOG_KEPT: Final = timedelta(hours=6)
VACUUM_KEPT: Final = timedelta(hours=3)
PROPERTIES: Final = {
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": f"interval {LOG_KEPT.total_seconds():.0f} seconds",
    "delta.deletedFileRetentionDuration": f"interval {VACUUM_KEPT.total_seconds():.0f} seconds",
    # The upkeep cleans the log, when nobody who follows it still needs it.
    "delta.enableExpiredLogCleanup": "false",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_turns: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)


class LakeTable:
    """A table of the store, as one version of it; `refresh` goes to the newest."""

    def __init__(self, store: StoreUrl, spec: TableSpec, handle: DeltaTable) -> None:
        self.store = store
        self.spec = spec
        self.files_of = TableFiles(store, spec)
        self._handle = handle
        self._numbers = Numbers(self.files_of.filesystem(), spec)
        self._listed: tuple[int, pa.Table] | None = None
        self._refreshed = time.monotonic()
        # Commits of one process take turns: the sink, the derived tables and the upkeep.
        self._turn = _turns[store.table_uri(spec.name)]

    @classmethod
    def open(cls, store: StoreUrl, spec: TableSpec, *, create: bool = True) -> LakeTable:
        """Open a table at its newest version; made if it is not there and `create` is true."""
        if (found := cls.find(store, spec)) is not None:
            return found
        if not create:
            raise StoreError(f"store {store}: there is no table {spec.name}")
        try:
            return cls(store, spec, _created(store, spec))
        except (DeltaError, OSError) as error:
            raise StoreError(f"store {store}: cannot make {spec.name}: {error}") from error

    @classmethod
    def find(cls, store: StoreUrl, spec: TableSpec) -> LakeTable | None:
        """A table at its newest version, or None if the store has no such table."""
        uri = store.table_uri(spec.name)
        try:
            return cls(store, spec, DeltaTable(uri, storage_options=store.storage_options))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise StoreError(f"store {store}: cannot open {spec.name}: {error}") from error

    @property
    def version(self) -> int:
        return int(self._handle.version())

    @property
    def delta(self) -> DeltaTable:
        """The handle of delta-rs, at this version."""
        return self._handle

    def refresh(self) -> int:
        """Go to the newest version; only new commits are read."""
        with self._turn:
            try:
                self._freshen(0)
            except (DeltaError, OSError) as error:
                said = f"store {self.store}: cannot read {self.spec.name}: {error}"
                raise StoreError(said) from error
            return self.version

    def transaction_version(self, app: str) -> int | None:
        """The last number that `app` committed, at this version."""
        return self._numbers.of(app, self._handle)

    # What the table holds

    def files(
        self,
        low: datetime | None = None,
        high: datetime | None = None,
        ranges: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> list[DataFile]:
        """Files that may hold rows with times in [low, high] and columns in these ranges.

        Bounds are inclusive, and None is open. No data is read: only the log's statistics.
        """
        wanted = dict(ranges or {})
        if (moment := time_column(self.spec)) is not None:
            wanted[moment] = (low, high)
        listed = self._adds()
        for name, (least, greatest) in wanted.items():
            listed = _pruned(listed, name, least, greatest)
        return list(_files(self.spec, listed))

    def added_between(self, after: int, upto: int) -> list[DataFile]:
        """Files whose rows came with the versions (after, upto]; compaction adds none."""
        return added_files(self.files_of.filesystem(), self.spec, after, upto)

    # Commits

    def append(self, files: Sequence[NewFile], app: str, number: int, fence: Fence) -> int:
        """Commit new files as the work `number` of `app`; the version that has them.

        Replayed if this or a later number is in the table already.
        """
        return self.commit(files, (), {app: number}, fence)

    def replace(
        self,
        added: Sequence[NewFile],
        removed: Sequence[DataFile],
        transactions: Mapping[str, int],
        fence: Fence,
    ) -> int:
        """Put files in the place of others in one commit; readers see all of it or nothing."""
        return self.commit(added, removed, transactions, fence, once=False)

    def commit(
        self,
        added: Sequence[NewFile],
        removed: Sequence[DataFile],
        transactions: Mapping[str, int],
        fence: Fence,
        *,
        changes_data: bool = True,
        once: bool = True,
    ) -> int:
        """One commit with all of this in it; the version it made.

        With `once`, numbers must be new (Replayed otherwise). FilesMoved when files to remove
        are not in the table any more; Fenced when another writer has taken over.
        """
        actions: list[AddAction | RemoveAction] = [
            *(_add(file, changes_data) for file in added),
            *(_remove(file, changes_data) for file in removed),
        ]
        properties = self.commit_properties(transactions, fence)
        done_before = transactions if once else {}
        failure: Exception | None = None
        with self._turn:
            for attempt in range(ATTEMPTS):
                try:
                    self._freshen(FRESH_S if attempt == 0 else 0)
                    self.check(fence)
                    if self._is_done(done_before):
                        if attempt and self._holds(added):  # only the answer was lost
                            return self.version
                        raise Replayed(f"table {self.spec.name}: {_said(transactions)} is there")
                    self._check_present(removed)
                    self._write(actions, properties)
                    return self._settled({**transactions, WRITER_APP: fence.epoch})
                except (DeltaError, OSError) as error:  # refused, or the store is away
                    failure = error
                    time.sleep(BACKOFF_S * 2**attempt)
        raise StoreError(f"table {self.spec.name}: commit failed: {failure}") from failure

    def claim(self, fence: Fence) -> None:
        """Shut out earlier writers of this table from now on, even before the first commit."""
        with self._turn:
            self._freshen(0)
            self.check(fence)
            if self.transaction_version(WRITER_APP) != fence.epoch:
                self.commit((), (), {}, fence, once=False)

    def check(self, fence: Fence) -> None:
        """Fenced if another writer has taken this table over, as this version knows."""
        newest = self.transaction_version(WRITER_APP)
        if newest is not None and newest > fence.epoch:
            raise Fenced(
                f"store {self.store}: another collector took over (its turn is {newest}, that of"
                f" {fence.owner} was {fence.epoch}); nothing was written"
            )

    def commit_properties(self, transactions: Mapping[str, int], fence: Fence) -> CommitProperties:
        """What every commit carries, also one that delta-rs makes itself."""
        numbers = {**transactions, WRITER_APP: fence.epoch}
        return CommitProperties(
            custom_metadata={"writer": fence.owner},
            app_transactions=[Transaction(app, number) for app, number in numbers.items()],
        )

    def _freshen(self, age_s: float) -> None:
        """Go to the newest version if this one may be older than that."""
        if time.monotonic() - self._refreshed >= age_s:
            self._refreshed = time.monotonic()
            self._handle.update_incremental()

    def _write(self, actions: list[AddAction | RemoveAction], properties: CommitProperties) -> None:
        self._handle.create_write_transaction(
            actions,
            "append",
            self._handle.schema(),
            partition_by=list(self.spec.partitions),
            commit_properties=properties,
        )

    def _settled(self, numbers: Mapping[str, int]) -> int:
        """The version just made, once it is safe on the disk."""
        self._freshen(0)
        self._numbers.committed(self.version, numbers)
        if self.store.is_local:
            commit = Path(self.store.table_uri(self.spec.name)) / commit_name(self.version)
            sync(commit)
            sync(commit.parent)
        return self.version

    def _is_done(self, transactions: Mapping[str, int]) -> bool:
        known = {app: self.transaction_version(app) for app in transactions}
        return any(
            (last := known[app]) is not None and last >= number
            for app, number in transactions.items()
        )

    def _check_present(self, removed: Sequence[DataFile]) -> None:
        if not self._holds(removed):
            raise FilesMoved(f"table {self.spec.name}: files to replace are there no more")

    def _holds(self, files: Sequence[NewFile | DataFile]) -> bool:
        wanted = {file.path for file in files}
        return not wanted or wanted <= set(self._adds().column("path").to_pylist())

    def _adds(self) -> pa.Table:
        """The files of this version with their statistics, listed once a version."""
        if self._listed is None or self._listed[0] != self.version:
            wanted = ["path", "size_bytes", "modification_time", "num_records"]
            table = pa.table(self._handle.get_add_actions(flatten=True))
            for name in pruned_columns(self.files_of.schema):
                wanted += [f"min.{name}", f"max.{name}"]
            wanted += [f"partition.{name}" for name in self.spec.partitions]
            there = [name for name in wanted if name in table.column_names]
            self._listed = (self.version, table.select(there))
        return self._listed[1]


def _created(store: StoreUrl, spec: TableSpec) -> DeltaTable:
    return DeltaTable.create(
        store.table_uri(spec.name),
        Schema.from_arrow(spec.schema),
        mode="ignore",  # two may make it at once
        partition_by=list(spec.partitions),
        name=spec.name,
        description=spec.description,
        configuration=PROPERTIES,
        storage_options=store.storage_options,
    )


def _files(spec: TableSpec, listed: pa.Table) -> Iterator[DataFile]:
    """Files of a list of the log, column by column: there may be thousands."""
    there = [name for name in pruned_columns(spec.schema) if f"min.{name}" in listed.column_names]
    bounds = [
        zip(_values(listed[f"min.{name}"]), _values(listed[f"max.{name}"]), strict=True)
        for name in there
    ]
    parts = [listed[f"partition.{name}"].cast(pa.string()).to_pylist() for name in spec.partitions]
    plain = ("path", "size_bytes", "num_records", "modification_time")
    rows = zip(*(listed[name].to_pylist() for name in plain), strict=True)
    for number, (path, size, count, modified) in enumerate(rows):
        spans = {name: next(of) for name, of in zip(there, bounds, strict=True)}
        yield data_file(
            spec,
            path=path,
            size=size,
            rows=count or 0,
            partition={
                name: part[number] for name, part in zip(spec.partitions, parts, strict=True)
            },
            bounds={name: span for name, span in spans.items() if None not in span},
            modified_ms=modified,
        )


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    return [None if m is None else _EPOCH + timedelta(microseconds=m) for m in micros]


def _pruned(listed: pa.Table, name: str, least: Any, greatest: Any) -> pa.Table:
    """The files that may hold a value in [least, greatest]; one without statistics may."""
    if f"min.{name}" not in listed.column_names:
        return listed
    low, high = listed.column(f"min.{name}"), listed.column(f"max.{name}")
    if least is not None:
        keep = pc.greater_equal(high, pa.scalar(least, high.type))
        listed = listed.filter(pc.fill_null(keep, True))
        low = listed.column(f"min.{name}")
    if greatest is not None:
        keep = pc.less_equal(low, pa.scalar(greatest, low.type))
        listed = listed.filter(pc.fill_null(keep, True))
    return listed


def _add(file: NewFile, changes_data: bool) -> AddAction:
    return AddAction(
        file.path, file.size, file.partition, file.modified_ms, changes_data, file.stats
    )


def _remove(file: DataFile, changes_data: bool) -> RemoveAction:
    now_ms = time.time_ns() // 1_000_000
    return RemoveAction(file.path, changes_data, now_ms, file.size, dict(file.partition))


def _said(transactions: Mapping[str, int]) -> str:
    return ", ".join(f"number {number} of {app}" for app, number in transactions.items())
