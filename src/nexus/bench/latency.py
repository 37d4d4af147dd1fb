"""End-to-end latency at a fixed rate: from the send call to the consumer that has the message."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nexus.bench.clients import (
    STAMP,
    Load,
    Read,
    consumer_at,
    gathering,
    in_processes,
    produce,
    tell,
)
from nexus.bench.disk import FsyncTime, Probe, fsync_time

WARM_UP_SECONDS = 2.0
AT_END = -1


@dataclass(frozen=True, slots=True)
class LatencySetting:
    """A rate over several producers and partitions."""

    bootstrap: str
    topic: str
    partitions: int
    rate: float = 5000
    seconds: float = 10
    producers: int = 1
    size: int = 200
    acks: str = "all"
    linger_ms: float = 0
    batch_bytes: int | None = None
    disk: Path | None = None
    """Where to measure the disk's own fsync time meanwhile."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds, over the messages after the warm-up."""

    messages: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    disk: FsyncTime | None = None


def measure(setting: LatencySetting, on_progress: Callable[[int], None] | None = None) -> Latency:
    """Run producers and a consumer in their own processes."""
    seconds = setting.seconds + WARM_UP_SECONDS
    each = int(setting.rate * seconds / setting.producers)
    load = Load(
        bootstrap=setting.bootstrap,
        topic=setting.topic,
        messages=each,
        size=setting.size,
        acks=setting.acks,
        rate=setting.rate / setting.producers,
        partitions=setting.partitions,
        options=gathering(setting.linger_ms, setting.batch_bytes),
    )
    everywhere = tuple(range(setting.partitions))
    total = each * setting.producers
    at_end = (AT_END,) * setting.partitions
    read = Read(setting.bootstrap, setting.topic, everywhere, total, at_end)
    probes = [Probe(setting.disk, int(seconds * 50), 0.02)] if setting.disk else []
    work = [read, *[load] * setting.producers, *probes]
    took, *others = in_processes(_run, work, on_progress=on_progress)
    return _summary(took, others[-1] if probes else None)


def _run(work: Load | Read | Probe) -> list[int] | FsyncTime | None:
    if isinstance(work, Read):
        return _listen(work)
    time.sleep(1.5)  # the consumer stands at the end before the first message comes
    if isinstance(work, Probe):
        return fsync_time(work)
    produce(work)
    return None


def _listen(read: Read) -> list[int]:
    """Nanoseconds from send to receipt of each message."""
    consumer = consumer_at(read)
    took: list[int] = []
    began = time.monotonic()
    quiet_since = threading.TIMEOUT_MAX
    while len(took) < read.messages and time.monotonic() - began < 300:
        message = consumer.poll(1.0)
        now = time.monotonic_ns()
        if message is None:
            if took and time.monotonic() - quiet_since > 5:
                break
            continue
        quiet_since = time.monotonic()
        value = message.value()
        if message.error() is None and isinstance(value, bytes):
            took.append(now - STAMP.unpack_from(value)[0])
            tell(len(took))
    consumer.close()
    return took


def _summary(took: list[int], disk: FsyncTime | None) -> Latency:
    warm = len(took) // 6
    ordered = sorted(took[warm:]) or [0]

    def at(share: float) -> float:
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] / 1e6

    last = ordered[-1] / 1e6
    return Latency(len(took) - warm, at(0.5), at(0.95), at(0.99), at(0.999), last, disk)
