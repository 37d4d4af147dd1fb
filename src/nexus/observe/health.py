"""Facts about the machine that a health check reports: room on the disk, memory in use.

Facts only: whether they are good enough is the caller's to say.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

Facts = dict[str, int | float | str]

_STATUS: Final = Path("/proc/self/status")


def facts(data_dir: Path) -> dict[str, Facts]:
    """The disk under `data_dir` and this process's memory, as plain values ready for JSON."""
    return {"disk": disk(data_dir), "memory": memory()}


def disk(data_dir: Path) -> Facts:
    try:
        usage = shutil.disk_usage(data_dir)
    except OSError as error:
        return {"path": str(data_dir), "error": error.strerror or str(error)}
    percent_free = round(100 * usage.free / usage.total, 2) if usage.total else 0.0
    return {
        "path": str(data_dir),
        "total_bytes": usage.total,
        "free_bytes": usage.free,
        "percent_free": percent_free,
    }


def memory(status: Path = _STATUS) -> Facts:
    """Resident memory now and at its highest; empty where the system does not tell."""
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return {}
    sizes = {name: _bytes(rest) for name, _, rest in (line.partition(":") for line in lines)}
    wanted = {"resident_bytes": sizes.get("VmRSS"), "peak_resident_bytes": sizes.get("VmHWM")}
    return {name: size for name, size in wanted.items() if size is not None}


def _bytes(text: str) -> int | None:
    number, _, unit = text.strip().partition(" ")
    return int(number) * 1024 if unit == "kB" and number.isdigit() else None
