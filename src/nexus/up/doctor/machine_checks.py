"""Is this machine fit: Python, Java, disk, memory, descriptors. Facts are arguments."""

from __future__ import annotations

import re
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nexus.errors import NexusError
from nexus.up.doctor.findings import Finding, ok, problem, warning
from nexus.up.words import size

PYTHON_LEAST: Final = (3, 11)
DISK_LEAST: Final = 1 << 30
DISK_EASY: Final = 10 << 30
# The whole stack takes about two thirds of the second; below the first Spark does not fit.
MEMORY_LEAST: Final = 3 << 29
MEMORY_EASY: Final = 3 << 30
FILES_LEAST: Final = 1024
_MEMORY: Final = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
_CGROUP: Final = Path("/sys/fs/cgroup")


def check_python(version: tuple[int, ...], platform: str) -> Finding:
    said = ".".join(map(str, version[:3]))
    if version[:2] < PYTHON_LEAST:
        least = ".".join(map(str, PYTHON_LEAST))
        return problem("python", f"Python {said}", f"install Python {least} or newer")
    if platform != "linux":
        return warning("python", f"Python {said} on {platform}", "Nexus is made for Linux")
    return ok("python", f"Python {said}")


def check_java(find: Callable[[], str]) -> Finding:
    """`find` says which Java there is, or raises what to install."""
    try:
        return ok("java", find())
    except NexusError as error:
        found, _, advice = str(error).partition(": ")
        return problem("java", found, advice or "install Java 17 or newer")


def check_disk(data_dir: Path) -> Finding:
    """Where the data will be, though that may not exist yet."""
    place = data_dir.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        said = f"{place}: {error.strerror or error}"
        return problem("disk", said, "choose another --data-dir")
    found = f"{size(free)} free for {data_dir}"
    if free < DISK_LEAST:
        return problem("disk", found, "free some space, or choose another --data-dir")
    if free < DISK_EASY:
        return warning("disk", found, "the queue alone may keep 10 GB (storage.retention_size)")
    return ok("disk", found)


def check_memory(available: int | None) -> Finding:
    if available is None:
        return warning("memory", "unknown", "see that 3 GB are free")
    found = f"{size(available)} available"
    if available < MEMORY_LEAST:
        return problem("memory", found, "Spark needs more: free some, or run --no-collector")
    if available < MEMORY_EASY:
        return warning("memory", found, "all parts together may take up to 3 GB")
    return ok("memory", found)


def check_files(limits: tuple[int, int], wanted: int) -> Finding:
    """Open files: every connection and segment is one. The broker raises its own soft limit."""
    hard = limits[1]
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        return ok("open files", f"up to {'any number' if hard < 0 else f'{hard:,}'}")
    found = f"at most {hard:,} (ulimit -Hn)"
    advice = f"raise the limit to {wanted:,} (systemd: LimitNOFILE=)"
    if hard < FILES_LEAST:
        return problem("open files", found, advice)
    return warning("open files", found, f"{advice}, or lower performance.max_connections")


def available_memory(proc: Path = Path("/proc"), cgroup: Path = _CGROUP) -> int | None:
    """What may still be taken: the machine's, or what a container is allowed."""
    try:
        found = _MEMORY.search((proc / "meminfo").read_text())
    except OSError:
        return None
    machine = int(found[1]) * 1024 if found else None
    allowed = _allowed(cgroup)
    return min((m for m in (machine, allowed) if m is not None), default=None)


def _allowed(cgroup: Path) -> int | None:
    """What is left of a container's share; page cache counts as free, for it is given up."""
    try:
        most = int((cgroup / "memory.max").read_text())
        now = int((cgroup / "memory.current").read_text())
        stat = (cgroup / "memory.stat").read_text()
    except (OSError, ValueError):
        return None
    cache = re.search(r"^file (\d+)", stat, re.MULTILINE)
    return max(0, most - now + (int(cache[1]) if cache else 0))
