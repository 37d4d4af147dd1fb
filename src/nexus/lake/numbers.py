"""The last number that each application committed to a table, kept up with its log.

delta-rs looks for a number in all commits since the last checkpoint, which on object storage are
as many requests. Here it is asked once; afterwards only new commits are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deltalake import DeltaTable
from pyarrow import fs

from nexus.lake.errors import HistoryGone
from nexus.lake.history import commits
from nexus.telemetry.tables import TableSpec

READ_MAX: Final = 8  # new commits: if there are more, delta-rs is asked again


class Numbers:
    """What is known of one table, at the version that was last asked for."""

    def __init__(self, filesystem: fs.FileSystem, spec: TableSpec) -> None:
        self._filesystem = filesystem
        self._spec = spec
        self._version = -1
        self._known: dict[str, int | None] = {}

    def of(self, app: str, handle: DeltaTable) -> int | None:
        """The last number of an application at the handle's version."""
        self._go_to(int(handle.version()))
        if app not in self._known:
            self._known[app] = handle.transaction_version(app)
        return self._known[app]

    def committed(self, version: int, numbers: Mapping[str, int]) -> None:
        """Take note of a commit of our own, which need not be read then."""
        if version == self._version + 1:
            self._version = version
            self._known.update(numbers)

    def _go_to(self, version: int) -> None:
        if version == self._version:
            return
        if not 0 < version - self._version <= READ_MAX:
            self._known.clear()
        elif self._known:
            self._read_upto(version)
        self._version = version

    def _read_upto(self, version: int) -> None:
        try:
            for actions in commits(self._filesystem, self._spec, self._version, version):
                said = [action["txn"] for action in actions if "txn" in action]
                self._known.update({txn["appId"]: int(txn["version"]) for txn in said})
        except HistoryGone:
            self._known.clear()
