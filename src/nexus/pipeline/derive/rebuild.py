"""Computes a derived table again from `readings`, for a span of time; for the holder of the lock.

What is there stays in place until its replacement is committed. A window keeps what is stored of
it where that was made of more readings than are left, or where retention has removed readings of
its day, unless told to be exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from nexus.lake.fence import Fence
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.pipeline.derive.engine import Engine, held
from nexus.pipeline.derive.options import SNAPSHOTS, WIDTHS, DeriveOptions
from nexus.pipeline.derive.rollup_table import RollupTable, Task
from nexus.pipeline.derive.snapshots import Snapshots
from nexus.pipeline.derive.windows import (
    HOUR,
    clipped,
    floor,
    merged,
    micros,
    pieces,
    windows_of,
)
from nexus.pipeline.errors import PipelineError

Told = Callable[[int, int], None]  # pieces done, of how many


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was computed again."""

    table: str
    pieces: int
    rows: int  # readings that lie in them, about


def rebuild(
    spark: SparkSession,
    store: StoreUrl,
    fence: Fence,
    table: str,
    *,
    low: datetime | None = None,
    high: datetime | None = None,
    exact: bool = False,
    options: DeriveOptions | None = None,
    told: Told = lambda done, of: None,
) -> Rebuilt:
    """Compute the windows in [low, high) again, or all of them, or a whole snapshot.

    Windows that are not closed yet are left to the follower.
    """
    engine = Engine.beside(spark, store, fence, options or DeriveOptions())
    readings = engine.table("readings")
    if table in SNAPSHOTS:
        if low is not None or high is not None:
            raise PipelineError(f"table {table} has no past: it is rebuilt whole, without a time")
        return _snapshots(engine, readings, table, exact=exact, told=told)
    if table not in WIDTHS:
        known = ", ".join((*WIDTHS, *SNAPSHOTS))
        raise PipelineError(f'"{table}" is no table that can be rebuilt; those are {known}')
    if low is not None and high is not None and low >= high:
        raise PipelineError("there is no time between from and to")
    return _rollup(engine, readings, table, low=low, high=high, exact=exact, told=told)


def _rollup(
    engine: Engine,
    readings: LakeTable,
    name: str,
    *,
    low: datetime | None,
    high: datetime | None,
    exact: bool,
    told: Told,
) -> Rebuilt:
    width = WIDTHS[name]
    rollup = RollupTable(engine, readings, name, width)
    files = [held(file) for file in readings.files(low, high)]
    stored = [held(file) for file in rollup.table.files(low, high)] if exact else []
    begin = None if low is None else floor(micros(low), width)
    end = None if high is None else floor(micros(high) - 1, width) + width
    closed = rollup.closed or 0
    windows = clipped(merged([*windows_of(files, width), *windows_of(stored, width)]), begin, end)
    made = pieces(clipped(windows, None, closed), files, engine.options.piece_rows, HOUR)
    for number, piece in enumerate(made):
        told(number, len(made))
        rollup.compute(Task(piece, renew=True), exact=exact)
    told(len(made), len(made))
    return Rebuilt(name, len(made), sum(piece.rows for piece in made))


def _snapshots(
    engine: Engine, readings: LakeTable, name: str, *, exact: bool, told: Told
) -> Rebuilt:
    """Both snapshots: one is made of the other."""
    snapshots = Snapshots(engine, readings)
    told(0, 1)
    rows = snapshots.rebuild(anew=exact)
    told(1, 1)
    return Rebuilt(name, 1, rows)
