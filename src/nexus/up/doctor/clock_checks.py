"""Does the clock tell the time: to the kernel, to others that we can ask, and to the tables."""

from __future__ import annotations

import ctypes
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from nexus.up.doctor.findings import Finding, ok, warning

_AHEAD_S: Final = 60.0
_APART_S: Final = 5.0
_UNSYNCHRONISED: Final = 5  # TIME_ERROR
_TIMEX_BYTES: Final = 256
_ADVICE: Final = "let a time service keep the clock (timedatectl set-ntp true, or chrony)"


def check_clock(
    now: float, synchronised: bool | None, newest: float | None, others: dict[str, float]
) -> Finding:
    """`newest` is when the tables were last written, `others` what other machines' clocks say."""
    if newest is not None and newest - now > _AHEAD_S:
        found = f"the tables were written {newest - now:,.0f} s in the future"
        return warning("clock", found, f"the clock went back: {_ADVICE}")
    for who, theirs in others.items():
        if abs(theirs - now) > _APART_S:
            return warning("clock", f"{theirs - now:+,.0f} s apart from {who}", _ADVICE)
    if synchronised is None:
        return ok("clock", "the system does not say whether it is kept")
    if not synchronised:
        return warning("clock", "not known to be kept by a time service", _ADVICE)
    return ok("clock", "kept by a time service")


def is_synchronised() -> bool | None:
    """Whether the kernel says that the clock is kept; None where it says nothing."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        state = int(library.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _UNSYNCHRONISED


def date_of(headers: dict[str, str]) -> float | None:
    """When a server says that it answered."""
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return None


def last_written(tables: Path) -> float | None:
    """When the newest commit of the table `readings` was made, by the clock of then."""
    log = tables / "readings" / "_delta_log"
    return max((p.stat().st_mtime for p in log.glob("*.json")), default=None)
