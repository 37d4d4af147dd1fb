"""What the streamer counts, under names that begin with `nexus_streamer_`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nexus.observe.metrics import FamilySnapshot, Kind, Registry

if TYPE_CHECKING:
    from nexus.streamer.engine import Engine

Rows = Iterable[tuple[tuple[str, ...], float]]


class StreamerRegistry(Registry):
    """A registry whose metrics are read off an engine when somebody asks."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def snapshot(self) -> list[FamilySnapshot]:
        return [
            FamilySnapshot(kind, name, meaning, labels, list(read(self._engine)))
            for kind, name, meaning, labels, read in _METRICS
        ]


def _one(read: Callable[[Engine], float]) -> Callable[[Engine], Rows]:
    return lambda engine: [((), float(read(engine)))]


def _rejected(engine: Engine) -> Rows:
    return [((reason,), float(count)) for reason, count in engine.stats.rejected.items()]


_METRICS: list[tuple[Kind, str, str, tuple[str, ...], Callable[[Engine], Rows]]] = [
    (
        "counter",
        "nexus_streamer_readings_read",
        "Readings that the source gave.",
        (),
        _one(lambda e: e.stats.readings_read),
    ),
    (
        "counter",
        "nexus_streamer_readings_acknowledged",
        "Readings that the queue holds.",
        (),
        _one(lambda e: e.stats.readings_acknowledged),
    ),
    (
        "counter",
        "nexus_streamer_messages_acknowledged",
        "Messages that the queue holds.",
        (),
        _one(lambda e: e.stats.messages_acknowledged),
    ),
    (
        "counter",
        "nexus_streamer_bytes_acknowledged",
        "Bytes of those messages' values.",
        (),
        _one(lambda e: e.stats.bytes_acknowledged),
    ),
    (
        "counter",
        "nexus_streamer_rows_rejected",
        "Rows of the source that are no readings, sent to the dead-letter topic.",
        ("reason",),
        _rejected,
    ),
    (
        "counter",
        "nexus_streamer_readings_refused",
        "Readings that the queue refused for good.",
        (),
        _one(lambda e: e.stats.readings_refused),
    ),
    (
        "counter",
        "nexus_streamer_readings_lost",
        "Readings of a live source for which there was no room.",
        (),
        _one(lambda e: e.stats.readings_lost),
    ),
    (
        "counter",
        "nexus_streamer_readings_spooled",
        "Readings that went to the spool first.",
        (),
        _one(lambda e: e.stats.readings_spooled),
    ),
    (
        "counter",
        "nexus_streamer_passes",
        "Times that a loop went through its source.",
        (),
        _one(lambda e: e.stats.passes),
    ),
    (
        "gauge",
        "nexus_streamer_spool_bytes",
        "Bytes that wait in the spool.",
        (),
        _one(lambda e: e.stats.spool_bytes),
    ),
    (
        "gauge",
        "nexus_streamer_readings_unacknowledged",
        "Readings on their way.",
        (),
        _one(lambda e: e.outbox.unacknowledged),
    ),
    (
        "gauge",
        "nexus_streamer_lag_seconds",
        "How long the oldest reading in memory has waited for its acknowledgement.",
        (),
        _one(lambda e: e.outbox.lag_s()),
    ),
    (
        "gauge",
        "nexus_streamer_queue_away",
        "1 while the queue does not answer.",
        (),
        _one(lambda e: e.outbox.is_away),
    ),
]
