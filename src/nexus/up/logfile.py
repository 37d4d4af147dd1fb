"""What a part writes, in a file of bounded size, with its last lines at hand.

When the file is full it becomes `NAME.log.1` and a new one begins. A disk that takes nothing more
costs lines and never stops the part.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

_LINES_KEPT: Final = 50
_LINE_MAX: Final = 4096
_SAID_MAX: Final = 240
_OURS: Final = "nexus: "


class LogFile:
    """One part's log; `write` takes bytes as they come."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.path = path
        self._limit = limit_bytes
        self._file: IO[bytes] | None = None
        self._size = 0
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._partial = b""

    @property
    def old_path(self) -> Path:
        return self.path.with_name(self.path.name + ".1")

    def write(self, data: bytes) -> None:
        self._remember(data)
        with suppress(OSError):
            if self._file is None or self._size + len(data) > self._limit:
                self._open()
            if self._file is not None:
                self._file.write(data)
                self._size += len(data)

    def close(self) -> None:
        """Safe to call twice; a later write opens it again."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def begin(self, headline: str) -> None:
        """A new start of the part: what the last one said is not its reason."""
        self._lines.clear()
        self._partial = b""
        self.write(headline.encode() + b"\n")
        self._lines.clear()

    def last_words(self) -> str:
        """Why it ended, in its own words, as far as it said: one line."""
        lines = [line for line in self._lines if line.strip()]
        ours = [line for line in lines if line.startswith(_OURS)]
        if ours:
            return _short(ours[-1].removeprefix(_OURS))
        return _short(_message_of(lines[-1])) if lines else ""

    def _open(self) -> None:
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if self.path.stat().st_size >= self._limit // 2:
                self.path.replace(self.old_path)
        self._file = self.path.open("ab", buffering=0)
        self._size = self._file.tell()

    def _remember(self, data: bytes) -> None:
        *whole, rest = (self._partial + data).split(b"\n")
        self._lines.extend(line[:_LINE_MAX].decode(errors="replace") for line in whole)
        self._partial = rest[-_LINE_MAX:]


def _message_of(line: str) -> str:
    """The message of a structured line; any other as it is."""
    try:
        said = json.loads(line)
    except ValueError:
        return line
    if not isinstance(said, dict):
        return line
    error = said.get("error")  # etcd's lines say why behind what
    message = str(said.get("message") or said.get("msg") or line)
    return f"{message}: {error}" if error and "msg" in said else message


def _short(text: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in text.strip())
    return plain if len(plain) <= _SAID_MAX else plain[:_SAID_MAX] + "…"
