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


@dataclass(frozen=True, slots=True)
class Probe:
    """When and where to measure: once every `pause` seconds, so as to be no load itself."""

    directory: Path
    samples: int = 400
    pause: float = 0.0
    size: int = 4096


def fsync_time(probe: Probe) -> FsyncTime:
    """Write a little and sync it, again and again, in a file of its own."""
    took = []
    block = bytes(probe.size)
    with tempfile.NamedTemporaryFile(dir=probe.directory, prefix=".fsync-") as file:
        for _ in range(probe.samples):
            time.sleep(probe.pause)
            began = time.perf_counter()
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    took.sort()
    p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
    return FsyncTime(p50 * 1e3, p99 * 1e3, filesystem_of(probe.directory))


def filesystem_of(path: Path) -> str:
    """The type of the file system that holds a path."""
    best, found = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split(" ")
        if str(path.resolve()).startswith(mount) and len(mount) > len(best):
            best, found = mount, kind
    return found
