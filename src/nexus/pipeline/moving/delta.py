"""Delta tables to be read and added to, without Spark: files by delta-rs and Arrow.

Rows become files sorted as the sink sorts them, and some files one commit. What was not committed
when the program died is nothing to anybody; the upkeep removes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.fence import REMOVED_APP, Fence
from nexus.lake.files import NewFile
from nexus.lake.lock import WriterLock
from nexus.lake.merge import in_order
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.pipeline.moving.delta_checks import fault_of, fresh_windows, read_errors
from nexus.pipeline.moving.port import COPIED, DERIVED, Slice, Wait
from nexus.store.delta.following import CLOSED_APP
from nexus.store.questions.spans import SECOND, Stretch
from nexus.telemetry.tables import TABLES

APP: Final = "copy"  # whose commits these are
PORTION_ROWS: Final = 512 * 1024
COMMIT_ROWS: Final = 4_000_000  # that a killed copy has to do again, at most


class DeltaPlace:
    """See `Place`."""

    counts_exactly = True

    def __init__(self, store: StoreUrl) -> None:
        self.name = str(store)
        self.store = store
        self._tables: dict[str, LakeTable] = {}
        self._is_pinned = False

    def days(self, table: str) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for file in self.table(table).files() if self.has(table) else ():
            day = file.partition["day"]
            found[day] = found.get(day, 0) + file.rows
        return found

    def rows(self, part: Slice) -> Iterator[pa.Table]:
        if not self.has(part.table):
            return
        table = self.table(part.table)
        columns = table.files_of.schema.names
        for file in sorted(table.files(part.since, part.until), key=lambda file: file.path):
            if file.partition["day"] != part.day:
                continue
            with read_errors(self.store):
                for batch in table.files_of.read([file.path], columns, _within(part), encoded=True):
                    yield pa.Table.from_batches([batch])

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Rollups are looked at before readings: these are then never the older ones."""
        self._tables = {}
        for name in (*DERIVED, *COPIED):
            self.has(name)
        self._is_pinned = True
        try:
            yield
        finally:
            self._is_pinned = False

    def faults(self, part: Slice) -> list[str]:
        """Files that are not as the log says."""
        table = self.table(part.table)
        of_day = [file for file in table.files() if file.partition["day"] == part.day]
        found = (fault_of(table, file) for file in of_day)
        return [fault for fault in found if fault]

    def fresh(self, part: Slice) -> list[Stretch]:
        if not self.has(part.table) or not self.has("readings"):
            return []
        return fresh_windows(self.table(part.table), self.table("readings"), part)

    @contextmanager
    def writer(self, owner: str, wait: Wait | None) -> Iterator[DeltaWriter]:
        lock = WriterLock(self.store, owner)
        fence = lock.acquire(
            None if wait is None else lambda: wait(lock.held_by() or "another collector")
        )
        try:
            yield DeltaWriter(self, fence)
        finally:
            lock.release()

    def close(self) -> None:
        self._tables.clear()

    def has(self, name: str) -> bool:
        """Whether the store has such a table."""
        if name not in self._tables:
            found = LakeTable.find(self.store, TABLES[name])
            if found is None:
                return False
            self._tables[name] = found
        return True

    def table(self, name: str) -> LakeTable:
        """A table at its newest version, made if it is not there."""
        if not self.has(name):
            self._tables[name] = LakeTable.open(self.store, TABLES[name])
        if not self._is_pinned:
            self._tables[name].refresh()
        return self._tables[name]


class DeltaWriter:
    """See `Writer`; derived tables follow when a collector next writes to the store."""

    tables = (*COPIED, *DERIVED)
    portion_rows = PORTION_ROWS
    derives = False

    def __init__(self, place: DeltaPlace, fence: Fence) -> None:
        self._place = place
        self._fence = fence
        self._waiting: list[NewFile] = []

    def add(self, part: Slice, rows: pa.Table) -> pa.Table:
        table = self._place.table(part.table)
        with table.files_of.writer({"day": part.day}) as writer:
            for piece in in_order(table.spec, rows.unify_dictionaries().combine_chunks()):
                writer.write(piece)
        assert writer.file is not None
        self._waiting.append(writer.file)
        if sum(file.rows for file in self._waiting) >= COMMIT_ROWS:
            self.settle(part)
        return rows.slice(0, 0)

    def settle(self, part: Slice) -> None:
        if self._waiting:
            table = self._place.table(part.table)
            last = table.transaction_version(APP)
            table.append(self._waiting, APP, 0 if last is None else last + 1, self._fence)
            self._waiting = []
        if part.table in DERIVED:
            self._note_gone(part)

    def _note_gone(self, part: Slice) -> None:
        """A day's rollup is all there is of it: nobody computes it again, and it can be asked."""
        readings, rollup = self._place.table("readings"), self._place.table(part.table)
        app = f"{REMOVED_APP}{part.day}"
        if readings.transaction_version(app) is None:
            readings.commit((), (), {app: 1}, self._fence, once=False)
        closed = max(rollup.transaction_version(CLOSED_APP) or 0, part.high // SECOND)
        if closed != rollup.transaction_version(CLOSED_APP):
            rollup.commit((), (), {CLOSED_APP: closed}, self._fence, once=False)

    def derive(self) -> None:
        """It takes Spark: the collector's follower does it, as for any batch."""


def _within(part: Slice) -> pc.Expression | None:
    """The condition of a slice that is less than its day."""
    if part.is_whole:
        return None
    column = pc.field(part.column)
    kind = TABLES[part.table].schema.field(part.column).type
    low, high = (pa.scalar(micros, pa.int64()).cast(kind) for micros in (part.low, part.high))
    return (column >= low) & (column < high)
