"""Merges files of a table into larger ones; readers and appends go on meanwhile.

The old files stay on the disk until the vacuum's time has passed, so that a reader who began
before the commit can end. The commit carries the fence: two merges of the same files cannot both
succeed, which in Delta itself would double rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from nexus.lake.datafile import DataFile
from nexus.lake.errors import FilesMoved, StoreError
from nexus.lake.fence import Fence
from nexus.lake.files import NewFile, TableFiles
from nexus.lake.merge import merged
from nexus.lake.plan import Merge
from nexus.lake.table import LakeTable

# Of many small files all rows are sorted at once, of larger ones little is read at a time.
AT_ONCE_ROWS: Final = 500_000
STREAMED_ROWS: Final = 16_384


class Stopped(StoreError):
    """Raised when a merge was given up because the program ends; nothing was changed."""


def compact(
    table: LakeTable, merge: Merge, fence: Fence, stopped: Callable[[], bool] = lambda: False
) -> NewFile | None:
    """Put one file in the place of several; None if they were replaced in the meantime."""
    file = write_merged(table.files_of, merge, stopped)
    try:
        table.commit([file], merge.files, {}, fence, changes_data=False, once=False)
    except FilesMoved:
        table.files_of.remove([file.path])
        return None
    return file


def write_merged(
    files: TableFiles, merge: Merge, stopped: Callable[[], bool] = lambda: False
) -> NewFile:
    """Write the rows of some files as one file, which no commit names yet."""
    batch_rows = AT_ONCE_ROWS if merge.rows <= AT_ONCE_ROWS else STREAMED_ROWS
    inputs = [files.read_in_order(file.path, batch_rows) for file in merge.files]
    with files.writer(merge.files[0].partition) as writer:
        for rows in merged(files.spec, inputs):
            if stopped():
                raise Stopped(f"table {files.spec.name}: a merge was given up")
            writer.write(rows)
        if writer.rows != merge.rows:
            raise StoreError(
                f"table {files.spec.name}: {merge.rows} rows to merge, but {writer.rows} were"
                " read; nothing was changed"
            )
    assert writer.file is not None
    # When its newest row came: what retention and later merges go by.
    return replace(writer.file, modified_ms=_newest(merge.files))


def _newest(files: tuple[DataFile, ...]) -> int:
    return max(file.modified_ms for file in files)
