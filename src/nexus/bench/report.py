"""What the benchmarks under bench/ print: the machine, then a table of figures with their goals."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nexus.bench.disk import filesystem_of


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result."""

    measure: str
    value: str
    goal: str


def machine(data: Path) -> str:
    """Where a measurement is taken, in one line."""
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()},"
        f" {filesystem_of(data)}, load {os.getloadavg()[0]:.1f} at the start"
    )


def print_table(figures: Sequence[Figure]) -> None:
    """The figures as a Markdown table's rows."""
    widths = [max(len(getattr(f, name)) for f in figures) for name in ("measure", "value", "goal")]
    for figure in figures:
        cells = zip((figure.measure, figure.value, figure.goal), widths, strict=True)
        print("| " + " | ".join(cell.ljust(width) for cell, width in cells) + " |")


def save(path: Path, setting: str, figures: Sequence[Figure]) -> None:
    """The same for programs."""
    rows = [asdict(figure) for figure in figures]
    path.write_text(json.dumps({"setting": setting, "figures": rows}, indent=2) + "\n")
