"""One writer for a store on a disk: a file lock that the operating system ends with the process.

The number of the turn is kept beside it. If that file is lost, the tables still know the last.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import IO, Any, Final

from nexus.lake.errors import StoreError
from nexus.lake.fence import Fence, last_epoch
from nexus.lake.files import sync
from nexus.lake.url import StoreUrl

FOLDER: Final = "_nexus"
# A lock lasts until it is given back, also when nobody keeps the object that took it.
_held: Final[set[IO[bytes]]] = set()


class FileHold:
    """The lock file of one store."""

    def __init__(self, store: StoreUrl) -> None:
        self._store = store
        self._folder = Path(store.uri) / FOLDER
        self._lock: IO[bytes] | None = None

    def take(self, owner: str) -> Fence | None:
        """The next turn, or None while a living process has the lock."""
        lock = self._opened()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        try:
            fence = Fence(self._last_epoch() + 1, owner)
            self._keep({"epoch": fence.epoch, "owner": owner, "process": os.getpid()})
        except BaseException:
            lock.close()
            raise
        self._lock = lock
        _held.add(lock)
        return fence

    def held_by(self) -> str | None:
        """Who took the last turn."""
        said = self._said()
        return f"{said['owner']} (process {said['process']})" if said else None

    def lost(self) -> bool:
        return False  # the kernel takes it back only with the process

    def give_back(self) -> None:
        if self._lock is not None:
            _held.discard(self._lock)
            self._lock.close()
            self._lock = None

    @property
    def _turns(self) -> Path:
        return self._folder / "writer.json"

    def _opened(self) -> IO[bytes]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return (self._folder / "writer.lock").open("ab")
        except OSError as error:
            raise StoreError(f"store {self._store}: cannot write there: {error}") from error

    def _last_epoch(self) -> int:
        said = self._said()
        return int(said["epoch"]) if said else last_epoch(self._store)

    def _said(self) -> dict[str, Any]:
        try:
            said = json.loads(self._turns.read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return said if isinstance(said, dict) and said.keys() >= {"epoch", "owner"} else {}

    def _keep(self, turn: dict[str, Any]) -> None:
        """Write the turn so that a power cut leaves the old one or the new one."""
        fresh = self._turns.with_suffix(".new")
        fresh.write_text(json.dumps(turn))
        sync(fresh)
        fresh.replace(self._turns)
        sync(self._folder)
