"""Whether the files of a Delta table are as its log says, and how fresh its rollups are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from nexus.lake.datafile import DataFile, file_of_add
from nexus.lake.errors import HistoryGone, StoreError
from nexus.lake.fence import READINGS_APP
from nexus.lake.stats import delta_stats, pruned_columns
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.pipeline.moving.port import DERIVED, Slice
from nexus.store.delta.following import CLOSED_APP
from nexus.store.questions.spans import MINUTE, SECOND, Stretch, inner, joined, less, outer


@contextmanager
def read_errors(store: StoreUrl) -> Iterator[None]:
    """What goes wrong with a file, in the words of a store."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"store {store}: {' '.join(str(error).split())}") from error


def fault_of(table: LakeTable, file: DataFile) -> str:
    """In what a file differs from what the log says of it; nothing if in nothing."""
    files = table.files_of.filesystem()
    info = files.get_file_info(file.path)
    if info.type is not fs.FileType.File:
        return f"{file.path}: the log names it, and it is not there"
    if info.size != file.size:
        return f"{file.path}: it has {info.size:,} bytes, and the log says {file.size:,}"
    try:
        with files.open_input_file(file.path) as source:
            footer = pq.read_metadata(source)
    except (OSError, pa.ArrowException) as error:
        return f"{file.path}: {' '.join(str(error).split())}"
    if footer.num_rows != file.rows:
        return f"{file.path}: it has {footer.num_rows:,} rows, and the log says {file.rows:,}"
    stats = delta_stats(footer, pruned_columns(table.files_of.schema))
    action = {"path": "", "size": 0, "modificationTime": 0, "stats": stats}
    real = file_of_add(action, table.spec).bounds
    wrong = sorted(name for name, bounds in file.bounds.items() if real.get(name) != bounds)
    return f"{file.path}: the log's statistics of {', '.join(wrong)} are wrong" if wrong else ""


def fresh_windows(rollup: LakeTable, readings: LakeTable, part: Slice) -> list[Stretch]:
    """The windows of a day that a rollup has closed, and that nothing came to since."""
    width = DERIVED[part.table]
    closed_s = rollup.transaction_version(CLOSED_APP)
    version = rollup.transaction_version(READINGS_APP)
    if closed_s is None or version is None or part.low >= closed_s * SECOND:
        return []
    try:
        added = readings.added_between(version, readings.version)
    except HistoryGone:
        return []  # nobody knows which readings are new
    day = Stretch(part.low, min(part.high, closed_s * SECOND))
    stale = [outer(minute, width) for minute in _minutes(readings, added, part)]
    return inner(less([day], joined(stale)), width)


def _minutes(readings: LakeTable, added: Sequence[DataFile], part: Slice) -> list[Stretch]:
    """The minutes of a day that files have readings of."""
    near = [file.path for file in added if file.partition.get("day") == part.day]
    found: set[int] = set()
    with read_errors(readings.store):
        for batch in readings.files_of.read(near, ["timestamp"]):
            moments = batch.column("timestamp").cast(pa.int64()).to_numpy()
            found |= set(np.unique(moments // MINUTE).tolist())
    return [Stretch(number * MINUTE, (number + 1) * MINUTE) for number in sorted(found)]
