"""Pictures of a collector at work, made by hand: what the display, the pages and health show."""

from __future__ import annotations

from nexus.pipeline.collector.progress import Phase, Progress
from nexus.pipeline.sink.port import Stored
from nexus.queue.port import Bounds

STORE = "delta:///tables"


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def running(clock: HandClock, *stores: str) -> Progress:
    """A collector that has just begun to run."""
    progress = Progress(stores or (STORE,), clock)
    progress.enter(Phase.RUNNING)
    return progress


def batch(progress: Progress, number: int, readings: int, end: int, url: str = STORE) -> None:
    """One batch of partition 0, stored and committed."""
    progress.stored(url, number, Stored(readings=readings, version=number), 0.5)
    progress.reached(url, number, {0: end}, {"addBatch": 0.4})


def bounds(end: int, start: int = 0) -> dict[int, Bounds]:
    return {0: Bounds(start, end)}
