"""What each commit of a table's log did, read from the log itself.

A compaction moves rows and adds none: only commits that change data count here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from pyarrow import fs

from nexus.lake.datafile import DataFile, file_of_add
from nexus.lake.errors import HistoryGone
from nexus.telemetry.tables import TableSpec

LOG_FOLDER: Final = "_delta_log"
READERS: Final = 8  # at once: on object stores a commit is a request


def commit_name(version: int) -> str:
    """Where the log keeps a commit, relative to the table."""
    return f"{LOG_FOLDER}/{version:020d}.json"


def added_files(
    filesystem: fs.FileSystem, spec: TableSpec, after: int, upto: int
) -> list[DataFile]:
    """Files with rows that commits (after, upto] brought, less those they took away again.

    HistoryGone when the log no longer has one of these commits.
    """
    added: dict[str, DataFile] = {}
    for actions in commits(filesystem, spec, after, upto):
        for action in actions:
            if (add := action.get("add")) and add["dataChange"]:
                added[add["path"]] = file_of_add(add, spec)
            elif (remove := action.get("remove")) and remove["dataChange"]:
                added.pop(remove["path"], None)
    return list(added.values())


def commits(
    filesystem: fs.FileSystem, spec: TableSpec, after: int, upto: int
) -> Iterator[list[dict[str, Any]]]:
    """The actions of each commit in (after, upto], in order."""

    def actions(version: int) -> list[dict[str, Any]]:
        try:
            return read_commit(filesystem, version)
        except FileNotFoundError as error:
            raise HistoryGone(
                f"table {spec.name}: version {version} is no longer in the log, so what was"
                f" added after version {after} is not known; start from the whole table"
            ) from error

    if upto <= after + 1:
        yield from (actions(version) for version in range(after + 1, upto + 1))
        return
    with ThreadPoolExecutor(min(READERS, upto - after)) as pool:
        yield from pool.map(actions, range(after + 1, upto + 1))


def read_commit(filesystem: fs.FileSystem, version: int) -> list[dict[str, Any]]:
    """The actions of one commit; FileNotFoundError if the log does not have it."""
    with filesystem.open_input_stream(commit_name(version)) as source:
        return [json.loads(line) for line in source.readall().splitlines() if line]
