"""`latest` and `gpus`, which follow `readings` together: both are made of the same new readings.

They are written whole, each in one commit that says the version of `readings` it stands for. New
readings are merged into what is there, and to merge them twice changes nothing: a crash between
the two commits only makes the next step begin at the earlier of their versions.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from nexus.lake.datafile import DataFile
from nexus.lake.errors import HistoryGone
from nexus.lake.fence import READINGS_APP
from nexus.lake.files import NewFile
from nexus.lake.table import LakeTable
from nexus.pipeline.derive.engine import Engine, held, rows_of
from nexus.pipeline.derive.latest import FIRST, PART, READ, TEXT, last_of_series
from nexus.pipeline.derive.numbered import LANE
from nexus.pipeline.derive.options import SNAPSHOTS
from nexus.pipeline.derive.parts import last_of_each
from nexus.pipeline.derive.progress import TableProgress
from nexus.pipeline.derive.scan import Scan, dealt
from nexus.pipeline.derive.windows import moment_of
from nexus.pipeline.derive.write import WRITTEN, write_snapshots, written_files

LATEST: Final = "latest"
LOAD: Final = 5  # a step rests at least so many times as long as it took
_KEPT_SHARE: Final = 4  # of the readings that are read, at most about so many cross


class Snapshots:
    """Both tables of the store."""

    def __init__(self, engine: Engine, readings: LakeTable) -> None:
        self._engine = engine
        self._readings = readings
        self.latest, self.gpus = (engine.table(name) for name in SNAPSHOTS)
        self._due_s = self._prune_due_s = 0.0
        self._todo: deque[list[DataFile]] = deque()  # what is being worked off
        self._todo_version = 0

    @property
    def version(self) -> int | None:
        """The version of `readings` that both stand for."""
        known = [t.transaction_version(READINGS_APP) for t in (self.latest, self.gpus)]
        return None if None in known else min(v for v in known if v is not None)

    def step(
        self, now_s: float, *, drain: bool = False, stopped: Callable[[], bool] = lambda: False
    ) -> TableProgress:
        """Take in what came since, or go on with that. Large tables rest for longer: see LOAD."""
        if now_s < self._due_s and not drain:
            return TableProgress(self.version)
        began = time.monotonic()
        self.latest.refresh()
        self.gpus.refresh()
        if not self._todo:
            self._plan(self._readings.version)
        done: list[DataFile] = []
        pieces = 0
        try:
            while self._todo and not stopped():
                self._take(self._todo[0], now_s)
                done += self._todo.popleft()
                pieces += 1
                if not drain and time.monotonic() - began > self._engine.options.turn_s:
                    break
        except BaseException:
            self._todo.clear()
            raise
        seconds = time.monotonic() - began
        self._due_s = 0.0 if self._todo else now_s + LOAD * seconds
        rows = rows_of(done)
        return TableProgress(self.version, None, pieces, rows, 0, seconds, bool(self._todo))

    def _plan(self, version: int) -> None:
        known = self.version
        new = [] if known == version else self._new(known, version)
        self._todo.extend(_shares(new, self._engine.options.piece_rows))
        self._todo_version = version
        if not new and version - (known or 0) >= self._engine.options.heartbeat_versions:
            for table in (self.latest, self.gpus):
                table.replace([], [], {READINGS_APP: version}, self._engine.fence)

    def _take(self, share: Sequence[DataFile], now_s: float) -> None:
        """Merge a share; with the last of them all readings of the version are there."""
        if len(self._todo) > 1:
            self.merge(share, {})
        else:
            says = {READINGS_APP: self._todo_version}
            self.merge(share, says, oldest_us=self._oldest(now_s))

    def merge(
        self,
        files: Sequence[DataFile],
        says: dict[str, int],
        *,
        oldest_us: int | None = None,
        anew: bool = False,
    ) -> None:
        """Merge the readings of these files into both tables; `anew`: into empty ones."""
        stored, known = self.latest.files(), self.gpus.files()
        written = self._job(
            files, [] if anew else stored, _read(self.gpus, [] if anew else known), oldest_us
        )
        for table, old in ((self.latest, stored), (self.gpus, known)):
            table.replace(written.get(table.spec.name, []), old, says, self._engine.fence)

    def rebuild(self, *, anew: bool) -> int:
        """Merge all readings, or make both tables of nothing else; how many readings those are."""
        files = self._readings.files()
        for share in [files] if anew else _shares(files, self._engine.options.piece_rows):
            self.merge(share, {}, anew=anew)
        return rows_of(files)

    def _new(self, known: int | None, version: int) -> list[DataFile]:
        """Files with readings that the tables may not know."""
        if known is not None and known <= version:
            try:
                added = self._readings.added_between(known, version)
            except HistoryGone:
                return self._readings.files()
            return self._present(added)
        return self._readings.files()

    def _present(self, added: Sequence[DataFile]) -> list[DataFile]:
        """The files themselves, or, if some were merged since, all that may hold their rows."""
        if not added:
            return []
        low, high = min(held(f).low for f in added), max(held(f).high for f in added)
        there = self._readings.files(moment_of(low), moment_of(high))
        paths = {file.path for file in there}
        return list(added) if all(file.path in paths for file in added) else there

    def _oldest(self, now_s: float) -> int | None:
        """Before when there are no readings any more, now and then; series before that are gone."""
        if now_s < self._prune_due_s:
            return None
        self._prune_due_s = now_s + self._engine.options.prune_interval_s
        return min((held(file).low for file in self._readings.files()), default=None)

    def _job(
        self,
        files: Sequence[DataFile],
        old: Sequence[DataFile],
        known: pa.Table,
        oldest_us: int | None,
    ) -> dict[str, list[NewFile]]:
        tasks = self._engine.partitions(rows_of(files) // _KEPT_SHARE + rows_of(old))
        parts = self._parts(files)
        if old:
            parts = parts.unionByName(self._stored(old))
        frame = last_of_series(parts.repartition(tasks, LANE))
        latest, gpus = (self._engine.files_of(name) for name in SNAPSHOTS)
        write = write_snapshots(latest, gpus, known, oldest_us)
        whole = frame if tasks == 1 else frame.repartition(1)
        return written_files(whole.mapInArrow(write, WRITTEN).collect())

    def _parts(self, files: Sequence[DataFile]) -> DataFrame:
        scan = Scan(
            self._engine.files_of("readings"),
            TEXT,
            READ,
            dealt(files, self._engine.cores),
            reduce=last_of_each(FIRST),
            reduced=PART,
        )
        return scan.frame(self._engine.spark)

    def _stored(self, files: Sequence[DataFile]) -> DataFrame:
        """What `latest` has: to be the last of its series, too, but no news of when it began."""
        tasks = dealt(files, self._engine.cores)
        scan = Scan(self._engine.files_of(LATEST), TEXT, READ, tasks)
        return scan.frame(self._engine.spark).withColumn(FIRST, F.lit(None).cast("timestamp"))


def _read(table: LakeTable, files: Sequence[DataFile]) -> pa.Table:
    batches = table.files_of.read([file.path for file in files])
    return pa.Table.from_batches(list(batches), table.spec.schema)


def _shares(files: Sequence[DataFile], rows_max: int) -> Iterator[list[DataFile]]:
    share: list[DataFile] = []
    rows = 0
    for file in files:
        if share and rows + file.rows > rows_max:
            yield share
            share, rows = [], 0
        share.append(file)
        rows += file.rows
    if share:
        yield share
