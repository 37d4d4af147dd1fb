"""Appends inside this process: what the log itself can take, without network or clients."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from nexus.log import LogConfig, LogStore, PartitionLog
from nexus.wire.batch import check_from_client
from nexus.wire.records import Record, encode_batch


def now_ms() -> int:
    """Wall-clock milliseconds."""
    return time.time_ns() // 1_000_000


def batch_of(messages: int, size: int) -> bytearray:
    """A batch as a producer would send it."""
    now = now_ms()
    return encode_batch([Record(n, now, None, bytes(size)) for n in range(messages)])


def append_rate(
    directory: Path, *, messages: int = 500, size: int = 200, batches: int = 4000
) -> float:
    """Messages a second: checked as a client's, appended, and flushed once at the end."""
    batch = memoryview(batch_of(messages, size))
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        log = PartitionLog.open(
            Path(folder) / "partition-0", LogConfig(), recovery_point=0, clean=False, now_ms=now_ms
        )
        began = time.perf_counter()
        for _ in range(batches):
            log.append(batch, check_from_client(batch), 0)
        log.flush()
        took = time.perf_counter() - began
        log.close()
    return messages * batches / took


def fill(data_dir: Path, topic: str, partitions: int, total_bytes: int) -> None:
    """Make a data directory whose topic holds so many bytes, stopped cleanly."""
    batch = memoryview(batch_of(500, 200))
    store = LogStore.open(data_dir, now_ms=now_ms)
    _, logs = store.create_topic(topic, partitions, {}, lambda _: LogConfig())
    for _ in range(total_bytes // len(batch) // partitions):
        for log in logs:
            log.append(batch, check_from_client(batch), 0)
    store.close()
