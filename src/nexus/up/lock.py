"""One `nexus up` a data directory. The kernel ends the lock with the process, however that ends."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from nexus.up.errors import AlreadyUp

LOCK_FILE: Final = "up.lock"


class UpLock:
    """Held from `take` to `release`; the file says by whom, and where its parts listen."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / LOCK_FILE
        self._file: IO[str] | None = None

    def take(self) -> None:
        """AlreadyUp while a living process has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise AlreadyUp(_refusal(self.path)) from None
        self._file = file
        self.tell({})

    def tell(self, facts: dict[str, Any]) -> None:
        """Write who holds it and what others may want to know."""
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            json.dump({"process": os.getpid(), **facts}, self._file)
            self._file.flush()

    def release(self) -> None:
        """Safe to call twice."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.truncate(0)
            file.close()


def holder_of(data_dir: Path) -> dict[str, Any] | None:
    """What the one that is up on this directory said of itself; None if nobody is."""
    path = data_dir / LOCK_FILE
    try:
        with path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _said(path)
    except OSError:
        return None
    return None


def _refusal(path: Path) -> str:
    process = _said(path).get("process")
    who = f" (process {process})" if process else ""
    return (
        f"{path.parent} belongs to another `nexus up`{who}: stop that one first,"
        " or give this one another --data-dir"
    )


def _said(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
