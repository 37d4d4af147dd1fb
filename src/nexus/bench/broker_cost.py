"""What a broker spent, read off its /metrics page before and after."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """A process's CPU time and memory at one moment."""

    cpu_seconds: float
    resident_bytes: float


def usage_of(http: str | None) -> Usage | None:
    """Ask the side port; None when there is none to ask."""
    if http is None:
        return None
    try:
        with urllib.request.urlopen(f"{http}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except (urllib.error.URLError, OSError, ValueError):
        return None
    return Usage(
        _value(text, "process_cpu_seconds_total"), _value(text, "process_resident_memory_bytes")
    )


def cpu_us_per_message(before: Usage | None, after: Usage | None, messages: int) -> float | None:
    """Microseconds of the broker's CPU for each message."""
    if before is None or after is None or not messages:
        return None
    return (after.cpu_seconds - before.cpu_seconds) * 1e6 / messages


def _value(text: str, name: str) -> float:
    for line in text.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    return 0.0
