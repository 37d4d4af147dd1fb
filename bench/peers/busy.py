"""Whether a machine is quiet enough to measure on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

MOST_BUSY: Final = 0.10
_IDLE: Final = (3, 4)  # idle and iowait, in the order of /proc/stat


def busy_share(seconds: float = 3.0) -> float:
    """The share of all cores' time that others use, or that the host took away."""
    before = _times()
    time.sleep(seconds)
    spent = [after - then for after, then in zip(_times(), before, strict=True)]
    idle = sum(spent[place] for place in _IDLE)
    return 1 - idle / max(sum(spent), 1)


def settled_share(within_s: float) -> float:
    """The same as soon as it is small enough: what a system left to be written may still be."""
    deadline = time.monotonic() + within_s
    while (share := busy_share(1.0)) > MOST_BUSY and time.monotonic() < deadline:
        pass
    return share


def refusal(share: float, most: float = MOST_BUSY) -> str | None:
    """Why not to measure now, and what to do."""
    if share <= most:
        return None
    return (
        f"the machine is too busy to measure on: {share:.0%} of its CPU time is in use"
        f" (at most {most:.0%}). End what runs, or measure all the same with --force:"
        " the result is then marked as busy"
    )


def _times() -> list[int]:
    words = Path("/proc/stat").read_text().partition("\n")[0].split()
    # The first eight; what guests use is in them already.
    return [int(word) for word in words[1:9]]
