"""Where to go on after a restart: for each file, up to where all is in the queue or the spool.

One small file, replaced as a whole. A loop's base time is in it before the loop's first reading
is sent, so that what is sent again after a crash keeps its timestamp.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from nexus.streamer.errors import StateDamaged, StateInUse
from nexus.streamer.files import write_atomically
from nexus.streamer.sources.port import Json, Position

_VERSION: Final = 1
_NAME_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Progress:
    """A stream's place: behind `state`, and so many readings further."""

    stream: str
    state: Mapping[str, Json]
    skip: int = 0


@dataclass(slots=True)
class Pass:
    """One time through the source. `base_us` takes the place of `origin_us` when restamping."""

    number: int = 0
    base_us: int | None = None
    origin_us: int | None = None

    @property
    def shift_us(self) -> int | None:
        """What restamping adds to a reading's own time."""
        if self.base_us is None or self.origin_us is None:
            return None
        return self.base_us - self.origin_us


@dataclass(slots=True)
class State:
    """All that a restart needs."""

    current: Pass = field(default_factory=Pass)
    streams: dict[str, Progress] = field(default_factory=dict)
    last_stamp_us: int = 0  # the newest time ever given to a reading by restamping
    spool_head: int = 0
    partitions: int | None = None

    def advance(self, progress: Progress) -> None:
        self.streams[progress.stream] = progress

    def next_pass(self) -> None:
        """The pass is through: the next one begins at the beginning and has no base yet."""
        self.current = Pass(self.current.number + 1)
        self.streams = {}

    def positions(self) -> dict[str, Position]:
        """As a source wants them; a stream known only by readings to skip has none."""
        return {n: Position(n, p.state) for n, p in self.streams.items() if p.state}

    def skips(self) -> dict[str, int]:
        return {name: p.skip for name, p in self.streams.items() if p.skip}


class StateDirectory:
    """The directory of one source and queue, locked for one streamer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "checkpoint.json"
        self._lock: TextIO | None = None
        self._about: dict[str, str] = {}

    def open(self, about: Mapping[str, str]) -> State:
        """Lock it and read what the last streamer left; `about` is for people who look inside."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = (self.path / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise StateInUse(
                f"{self.path}: another streamer sends this source to this queue;"
                " give it another --state-dir or --shard"
            ) from None
        self._about = dict(about)
        return self._load()

    def encode(self, state: State) -> bytes:
        """The checkpoint's bytes now; writing them may take its time in another thread."""
        return json.dumps(_document(state, self._about)).encode()

    def write(self, data: bytes) -> None:
        write_atomically(self.file, data)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _load(self) -> State:
        try:
            return _state(json.loads(self.file.read_bytes()))
        except FileNotFoundError:
            return State()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateDamaged(
                f"{self.file}: not a checkpoint ({error}); remove it to begin anew"
            ) from error


def state_directory(root: Path, source: str, queue: str, shard: str) -> StateDirectory:
    """The place for one combination of source, queue and shard, with a name people can read."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", source).strip("-")[-_NAME_MAX:]
    digest = hashlib.sha256("\n".join((source, queue, shard)).encode()).hexdigest()[:12]
    return StateDirectory(root / f"{readable}-{digest}")


def _document(state: State, about: Mapping[str, str]) -> dict[str, Any]:
    current = state.current
    return {
        "version": _VERSION,
        **about,
        "pass": {
            "number": current.number,
            "base_us": current.base_us,
            "origin_us": current.origin_us,
        },
        "last_stamp_us": state.last_stamp_us,
        "spool_head": state.spool_head,
        "partitions": state.partitions,
        "streams": {
            name: {"state": dict(p.state), "skip": p.skip} for name, p in state.streams.items()
        },
    }


def _state(document: Any) -> State:
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']}")
    streams = {
        name: Progress(name, dict(entry["state"]), int(entry["skip"]))
        for name, entry in document["streams"].items()
    }
    return State(
        Pass(**document["pass"]),
        streams,
        int(document["last_stamp_us"]),
        int(document["spool_head"]),
        document["partitions"],
    )
