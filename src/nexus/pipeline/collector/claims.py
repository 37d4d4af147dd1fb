"""Which partitions of a queue each collector on this data directory works on, so that none overlap.

A claim is a file that its collector holds a lock on; the system ends the lock with the process,
so a claim that a dead collector left counts for nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

from nexus.pipeline.errors import PipelineError

Spans = tuple[tuple[int, int], ...]
ALL: Final[Spans] = ((0, 1 << 31),)
_SUFFIX: Final = ".claim"


class Overlap(PipelineError):
    """Raised when another collector works on the same partitions for the same group."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """Who works on which partitions, in the words that a message needs."""

    collector: str
    process: int
    queue: str
    group: str
    partitions: str  # such as 0-5,7; empty for all
    stores: tuple[str, ...]


class Claims:
    """The claims on one queue and group under one data directory."""

    def __init__(self, data_dir: Path, queue: str, group: str) -> None:
        name = sha256(f"{queue} {group}".encode()).hexdigest()[:12]
        self._folder = data_dir / "claims" / name
        self._held: tuple[Path, IO[str]] | None = None

    def take(self, claim: Claim) -> None:
        """Claim the partitions, or Overlap; until `release` or the end of the process."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with _alone(self._folder / "lock"):
            for other in self._living():
                if overlap(spans_of(claim.partitions), spans_of(other.partitions)):
                    raise Overlap(_told(claim, other))
            path = self._folder / f"{claim.process}{_SUFFIX}"
            file = path.open("w")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            json.dump(asdict(claim), file)
            file.flush()
            self._held = path, file

    def release(self) -> None:
        """Let others have the partitions; safe to call twice."""
        held, self._held = self._held, None
        if held is not None:
            held[0].unlink(missing_ok=True)
            held[1].close()

    def _living(self) -> Iterator[Claim]:
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            with suppress(FileNotFoundError), path.open() as file:
                if _is_locked(file):
                    with suppress(ValueError, TypeError):
                        yield Claim(**json.load(file))
                else:
                    path.unlink(missing_ok=True)


def spans_of(text: str) -> Spans:
    """`0-5,7` as first and last numbers; all partitions, of whatever number, when empty."""
    if not text:
        return ALL
    pairs = [part.partition("-") for part in text.split(",")]
    return tuple((int(first), int(last or first)) for first, _, last in pairs)


def overlap(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    """Whether any number is in both."""
    return any(a <= d and c <= b for a, b in one for c, d in other)


def _told(claim: Claim, other: Claim) -> str:
    which = f"partitions {other.partitions}" if other.partitions else "all partitions"
    mine = f"--partitions {claim.partitions}" if claim.partitions else "all partitions"
    return (
        f"{mine} of {claim.queue} overlap with {which}, which collector {other.collector}"
        f" (process {other.process}) carries to {', '.join(other.stores)} as group {other.group};"
        " choose partitions that it does not have, or another --group"
    )


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One at a time looks at the claims and adds its own; nobody holds it for long."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
