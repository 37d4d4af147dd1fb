"""The disk's own fsync time, where a broker keeps its data."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FsyncTime:
    """Percentiles in milliseconds of a small write and its fdatasync."""

    p50_ms: float
    p99_ms: float
    filesystem: str


def fsync_time(directory: Path, samples: int = 400, size: int = 4096) -> FsyncTime:
    """Write and sync `samples` times in a file of its own."""
    took = []
    block = bytes(size)
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".fsync-") as file:
        for _ in range(samples):
            began = time.perf_counter()
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    took.sort()
    return FsyncTime(
        took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3, filesystem_of(directory)
    )


def filesystem_of(path: Path) -> str:
    """The type of the file system that holds a path."""
    best, found = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split(" ")
        if str(path.resolve()).startswith(mount) and len(mount) > len(best):
            best, found = mount, kind
    return found
