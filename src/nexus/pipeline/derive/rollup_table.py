"""A rollup that follows `readings`: what is due, in pieces, each with one commit.

Two numbers say how far it is, both in the table's own commits: `closed`, before which all windows
are stored, and the version of `readings` up to which these are right. A crash between two pieces
leaves a table that is right as far as it says, and work that is done again with the same result.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from pyspark.sql import DataFrame

from nexus.lake.datafile import DataFile
from nexus.lake.errors import FilesMoved, HistoryGone
from nexus.lake.fence import READINGS_APP, REMOVED_APP
from nexus.lake.files import NewFile
from nexus.lake.table import LakeTable
from nexus.pipeline.derive.engine import CLOSED_APP, Engine, held, marked, rows_of
from nexus.pipeline.derive.numbered import LANE
from nexus.pipeline.derive.parts import WINDOW_PART, by_window
from nexus.pipeline.derive.progress import TableProgress
from nexus.pipeline.derive.rollup import MEASURES, READ, rollup
from nexus.pipeline.derive.scan import Scan, dealt
from nexus.pipeline.derive.touched import touched
from nexus.pipeline.derive.windows import (
    DAY,
    HOUR,
    SECOND,
    Piece,
    Span,
    clipped,
    floor,
    moment_of,
    next_closed,
    overlaps,
    pieces,
    windows_of,
)
from nexus.pipeline.derive.write import WRITTEN, write_rollup, written_files
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import DEVICE_COLUMNS

TEXT: Final = tuple(dict.fromkeys((*SERIES_COLUMNS, *DEVICE_COLUMNS)))
ATTEMPTS: Final = 5  # at a piece, when the upkeep moves the files that it replaces
_GPUS_SHARE: Final = 4
_WRITTEN_SHARE: Final = 8  # rows of so many tasks go into one file


@dataclass(frozen=True, slots=True)
class Task:
    """A piece to compute, for which GPUs, and what its commit says of progress."""

    piece: Piece
    uuids: frozenset[str] | None = None
    says: Mapping[str, int] | None = None
    late: bool = False
    renew: bool = False  # also rows that are made of as many readings as before


class RollupTable:
    """One rollup of the store."""

    def __init__(self, engine: Engine, readings: LakeTable, name: str, width: int) -> None:
        self._engine = engine
        self._readings = readings
        self._name = name
        self._width = width
        self.table = engine.table(name)
        self._seen: int | None = None  # version whose new files have been looked at
        self._late: dict[str, DataFile] = {}  # of those: with readings of stored windows
        self._late_after = 0.0
        self._tasks: deque[Task] = deque()  # of the plan that is being worked off
        self._planned_late: tuple[str, ...] = ()  # what of the late files it deals with

    @property
    def version(self) -> int | None:
        return self.table.transaction_version(READINGS_APP)

    @property
    def closed(self) -> int | None:
        seconds = self.table.transaction_version(CLOSED_APP)
        return None if seconds is None else seconds * SECOND

    def step(
        self, now_s: float, *, drain: bool = False, stopped: Callable[[], bool] = lambda: False
    ) -> TableProgress:
        """Do what is due as of the version that `readings` is at, or go on with that.

        After a while the rest is left to the next step, so that other tables have their turn;
        with `drain`, all of it is done.
        """
        began = time.monotonic()
        self.table.refresh()
        if not self._tasks:
            self._look()
            self._tasks.extend(self._planned(self._readings.version, now_s, drain=drain))
        done: list[Task] = []
        try:
            while self._tasks and not stopped():
                self.compute(self._tasks[0])
                done.append(self._tasks.popleft())
                if not drain and time.monotonic() - began > self._engine.options.turn_s:
                    break
        except BaseException:
            self._tasks.clear()  # what is late is still noted, so the next plan has it
            raise
        if not self._tasks:
            self._settle(now_s)
        return self._progress(done, time.monotonic() - began)

    def compute(self, task: Task, *, exact: bool = False) -> None:
        """Compute windows and put them in the place of what is stored of them, in one commit.

        What is stored is kept where it was made of more readings. With `exact` it does not count.
        """
        for attempt in range(ATTEMPTS):
            self.table.refresh()
            new = _of_gpus(self._holding(self._readings, task.piece.spans), task.uuids)
            old = _of_gpus(self._holding(self.table, task.piece.spans), task.uuids)
            written = self._job(task, new, old, exact=exact) if new or exact else []
            replaced = old if new or exact else []
            if not written and not replaced and not task.says:
                return
            try:
                self.table.replace(written, replaced, task.says or {}, self._engine.fence)
            except FilesMoved:
                self._engine.drop(self._name, written)
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                return

    # What is due

    def _settle(self, now_s: float) -> None:
        """The plan is done: what was late in it is no more."""
        if self._planned_late:
            self._late_after = now_s + self._engine.options.late_interval_s.get(self._name, 0.0)
        for path in self._planned_late:
            self._late.pop(path, None)
        self._planned_late = ()

    def _look(self) -> None:
        """Take note of files that came since the last look and hold readings of stored windows."""
        closed, upto = self.closed, self._readings.version
        if closed is None:
            self._seen = upto
            return
        after = self.version if self._seen is None else self._seen
        for file in self._added(after, upto):
            if held(file).low < closed:
                self._late[file.path] = file
        self._seen = upto

    def _added(self, after: int | None, upto: int) -> list[DataFile]:
        if after is not None and after <= upto:
            try:
                return self._readings.added_between(after, upto)
            except HistoryGone:
                pass
        # Nobody knows what is new: everything may be.
        return self._readings.files()

    def _planned(self, version: int, now_s: float, *, drain: bool) -> list[Task]:
        """Late pieces first: only after them may a commit say that the version is done."""
        closed = self.closed
        closing = self._closing(closed, version, now_s)
        is_due = bool(closing) or drain or now_s >= self._late_after
        self._planned_late = tuple(self._late) if is_due else ()
        late = self._late_tasks(closed) if self._planned_late and closed is not None else []
        if late and not closing:
            late[-1] = replace(late[-1], says={READINGS_APP: version})
        if not late and not closing and self._is_behind(version):
            self.table.replace([], [], {READINGS_APP: version}, self._engine.fence)
        return [*late, *closing]

    def _closing(self, closed: int | None, version: int, now_s: float) -> list[Task]:
        """The windows that close now; each commit says up to where."""
        options = self._engine.options
        recent = self._readings.files(None if closed is None else moment_of(closed))
        spans = [held(file) for file in recent]
        end = max((span.high for span in spans), default=None)
        grace = round(options.grace_s * SECOND)
        upto = next_closed(closed, round(now_s * SECOND), grace, self._width, end)
        windows = clipped(windows_of(spans, self._width), closed, upto)
        made = pieces(windows, spans, options.piece_rows, HOUR)
        ends = [piece.spans[0].low for piece in made[1:]] + [upto]
        return [
            Task(piece, says={READINGS_APP: version, CLOSED_APP: end // SECOND})
            for piece, end in zip(made, ends, strict=bool(made))
        ]

    def _late_tasks(self, closed: int) -> list[Task]:
        options = self._engine.options
        files = list(self._late.values())
        hull = Span(min(held(f).low for f in files), min(closed, max(held(f).high for f in files)))
        stored = self._readings.files(moment_of(hull.low), moment_of(hull.high))
        found = touched(self._engine, files, frozenset(f.path for f in stored), self._width)
        spans = clipped(found.spans(), None, closed)
        made = pieces(spans, [held(f) for f in stored], options.piece_rows, HOUR)
        return [Task(p, found.gpus(p, options.uuids_max), late=True) for p in made]

    def _is_behind(self, version: int) -> bool:
        told = self.version
        is_quiet = told is not None and self.closed is not None and not self._late
        return is_quiet and version - (told or 0) >= self._engine.options.heartbeat_versions

    # Computing

    def _holding(self, table: LakeTable, spans: Sequence[Span]) -> list[DataFile]:
        """The files of a table that may hold rows of these spans."""
        table.refresh()
        found = table.files(moment_of(spans[0].low), moment_of(spans[-1].high - 1))
        return [f for f in found if overlaps(spans, held(f).low, held(f).high)]

    def _job(
        self, task: Task, new: Sequence[DataFile], old: Sequence[DataFile], *, exact: bool
    ) -> list[NewFile]:
        # Of few GPUs it is a part of the readings; how large, nobody knows before.
        rows = task.piece.rows if task.uuids is None else task.piece.rows // _GPUS_SHARE
        tasks = self._engine.partitions(rows)
        frame = self._computed(task, new, tasks)
        if old:
            stored = self._stored(task, old, outside=exact)
            frame = frame.unionByName(marked(stored, is_old=True))
        files = -(-tasks // _WRITTEN_SHARE) + rows_of(old) // self._engine.options.partition_rows
        if old or files != tasks:
            frame = frame.repartition(files, LANE)
        final = self._final_days(task.piece.spans) if old else frozenset()
        write = write_rollup(self._engine.files_of(self._name), final, renew=task.renew)
        return written_files(frame.mapInArrow(write, WRITTEN).collect()).get(self._name, [])

    def _computed(self, task: Task, files: Sequence[DataFile], tasks: int) -> DataFrame:
        scan = Scan(
            self._engine.files_of("readings"),
            TEXT,
            READ,
            dealt(files, self._engine.cores),
            task.piece.spans,
            None if task.uuids is None else tuple(sorted(task.uuids)),
            reduce=by_window(self._width),
            reduced=WINDOW_PART,
        )
        parts = scan.frame(self._engine.spark).repartition(tasks, LANE)
        return marked(rollup(parts), is_old=False)

    def _final_days(self, spans: Sequence[Span]) -> frozenset[date]:
        """The days of which readings were removed: what is stored of them is all there is."""
        days = {
            moment_of(start).date()
            for span in spans
            for start in range(floor(span.low, DAY), span.high, DAY)
        }
        known = self._readings.transaction_version
        return frozenset(day for day in days if known(f"{REMOVED_APP}{day}") is not None)

    def _stored(self, task: Task, files: Sequence[DataFile], *, outside: bool) -> DataFrame:
        """The rows of files that are replaced: all, or only those that are not computed anew."""
        scan = Scan(
            self._engine.files_of(self._name),
            TEXT,
            ("start", *MEASURES),
            dealt(files, self._engine.cores),
            task.piece.spans if outside else None,
            outside=outside,
        )
        return scan.frame(self._engine.spark)

    def _progress(self, done: Sequence[Task], seconds: float) -> TableProgress:
        self.table.refresh()
        closed = self.closed
        return TableProgress(
            version=self.version,
            closed=None if closed is None else moment_of(closed),
            pieces=len(done),
            rows=sum(task.piece.rows for task in done),
            late=sum(task.late for task in done),
            seconds=seconds,
            unfinished=bool(self._tasks),
        )


def _of_gpus(files: Sequence[DataFile], uuids: frozenset[str] | None) -> list[DataFile]:
    """The files that may hold rows of these GPUs."""
    if uuids is None:
        return list(files)
    return [file for file in files if _may_hold(file, uuids)]


def _may_hold(file: DataFile, uuids: frozenset[str]) -> bool:
    low, high = file.bounds.get("uuid", (None, None))
    return low is None or high is None or any(low <= uuid <= high for uuid in uuids)
