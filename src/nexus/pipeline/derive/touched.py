"""Which windows late readings belong to, looked up in the files themselves.

Statistics of a file with few readings over a long time would have every window between them
computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.datafile import DataFile
from nexus.lake.files import TableFiles
from nexus.pipeline.derive.engine import Engine, held
from nexus.pipeline.derive.scan import GATHERED_ROWS, dealt, gathered
from nexus.pipeline.derive.windows import Touched, is_sparse, windows_of
from nexus.telemetry.scalars import whole

Batches = Iterator[pa.RecordBatch]
PAIRS_MAX: Final = 50_000  # of windows and GPUs, that one batch of readings may name
_SCHEMA: Final = "start long, uuid string"


def touched(
    engine: Engine, files: Sequence[DataFile], present: frozenset[str], width: int
) -> Touched:
    """The windows of all readings in these files; those not `present` cannot be looked into."""
    rows = engine.options.dense_rows
    sparse = [f for f in files if f.path in present and is_sparse(held(f), width, rows)]
    paths = {file.path for file in sparse}
    dense = windows_of((held(f) for f in files if f.path not in paths), width)
    return Touched(dense, _looked_up(engine, sparse, width) if sparse else {}, width)


def _looked_up(
    engine: Engine, files: Sequence[DataFile], width: int
) -> dict[int, frozenset[str] | None]:
    tasks = dealt(files, engine.cores)
    look = look_into(engine.files_of("readings"), tasks, width, engine.options.uuids_max)
    found = engine.spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(look, _SCHEMA).toArrow()
    pairs = zip(*(column.to_pylist() for column in found.columns), strict=True)
    return _by_window(pairs, engine.options.uuids_max)


def _by_window(
    pairs: Iterable[tuple[int, str | None]], uuids_max: int
) -> dict[int, frozenset[str] | None]:
    """The GPUs of each window; None for one of too many."""
    found: dict[int, set[str | None]] = {}
    for start, uuid in pairs:
        found.setdefault(start, set()).add(uuid)
    return {
        start: None if None in uuids or len(uuids) > uuids_max else frozenset(filter(None, uuids))
        for start, uuids in found.items()
    }


def look_into(
    files: TableFiles, tasks: Sequence[Sequence[str]], width: int, uuids_max: int
) -> Callable[[Batches], Batches]:
    """A task's work: the windows, and their GPUs, of the readings in its files."""

    def look(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                read = files.read(tasks[number], ("timestamp", "uuid"), encoded=True)
                for table in gathered(read, GATHERED_ROWS):
                    yield from _pairs(table, width, uuids_max).to_batches()

    return look


def _pairs(table: pa.Table, width: int, uuids_max: int) -> pa.Table:
    """Distinct windows and GPUs; a window of many GPUs is said once, without them."""
    ticks = table.column("timestamp").cast(pa.int64())
    start = pc.multiply(pc.divide(ticks, whole(width)), whole(width))
    pairs = pa.table({"start": start, "uuid": table.column("uuid").cast(pa.string())})
    pairs = pairs.group_by(["start", "uuid"], use_threads=False).aggregate([])
    windows = pairs.group_by("start", use_threads=False).aggregate([("uuid", "count")])
    if pairs.num_rows > PAIRS_MAX:
        return _of_any(windows)
    is_many = pc.greater(windows.column("uuid_count"), whole(uuids_max))
    many = windows.filter(is_many)
    few = pairs.filter(pc.invert(pc.is_in(pairs.column("start"), many.column("start"))))
    return pa.concat_tables([few.select(["start", "uuid"]), _of_any(many)])


def _of_any(windows: pa.Table) -> pa.Table:
    anyone = pa.nulls(windows.num_rows, pa.string())
    return pa.table({"start": windows.column("start"), "uuid": anyone})
