"""An engine with a queue in memory and a source that gives nothing: for what stands around it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from nexus.queue.partitioners import partitioner_named
from nexus.streamer.checkpoint import StateDirectory
from nexus.streamer.engine import Engine, EngineOptions
from nexus.streamer.pacing import FlatOut
from nexus.streamer.parcels import Packer, Stamp
from nexus.streamer.passes import PassOptions
from support.queues import ListSource, MemoryQueue


def engine_at(path: Path, queue: MemoryQueue) -> Engine:
    """Its outbox works; close it at the end."""
    packer = Packer(
        "json",
        partitioner_named("murmur2"),
        Stamp("c", "test"),
        rows_max=100,
        now_us=lambda: time.time_ns() // 1000,
        now_s=asyncio.get_running_loop().time,
    )
    options = EngineOptions(PassOptions(), FlatOut, 0, 1 << 20, 4, away_after_s=0.05)
    source = ListSource(0, live=True, forever=True)
    engine = Engine(source, queue, packer, StateDirectory(path), options)
    engine.outbox.start()
    return engine
