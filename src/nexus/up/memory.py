"""The memory of a process and of all that it started, with shared pages counted once (PSS)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_PSS: Final = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


def pss_bytes(root: int, proc: Path = _PROC) -> int:
    """Of the process `root` and its descendants, as far as they can be read."""
    return sum(_pss_of(proc / str(pid)) for pid in tree_of(root, proc))


def tree_of(root: int, proc: Path = _PROC) -> Iterator[int]:
    """A process and its descendants, in sessions of their own or not."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for place in proc.glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            # The name in brackets may hold anything, brackets included.
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            children[parent].append(int(place.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children[pid]


def _pss_of(place: Path) -> int:
    with suppress(OSError):
        found = _PSS.search((place / "smaps_rollup").read_bytes())
        if found:
            return int(found[1]) * 1024
    return 0
