"""Tells the cluster now and then what this broker carries: load, what it copies, what is damaged.

For people who look and for planners, never for safety. What is nearly as before is not told again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from nexus.broker.cluster_metrics import damaged
from nexus.broker.partition import Carried
from nexus.cluster.controlling import PartitionKey
from nexus.cluster.port import Report
from nexus.observe.logs import get_logger
from nexus.wire.errors import ProtocolError

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

log = get_logger(__name__)

BUSY_SECONDS: Final = 1.0  # between reports while something is copied
SMOOTHING: Final = 0.3  # the weight of the newest measurement
PARTITIONS_MOST: Final = 2_000
NOISE: Final = 0.2  # of a value: less is not worth telling
NOISE_BYTES: Final = 1_000.0

Row = tuple[float, ...]
_NOTHING: Final = (0, 0, 0, 0)


class Reporter:
    """Measures and tells until it is stopped."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._before: dict[PartitionKey, Row] = {}
        self._rates: dict[PartitionKey, Row] = {}
        self._at = broker.loop.time()
        self._told = Report()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Safe to call twice."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        every_s = self._broker.settings.cluster.report_interval_ms / 1000
        while True:
            await asyncio.sleep(min(every_s, BUSY_SECONDS) if self._told.copying else every_s)
            report = self._measured()
            if not worth_telling(self._told, report):
                continue
            try:
                await self._broker.cluster.report(report)
                self._told = report
            except ProtocolError as error:
                log.debug("a report could not be made", why=str(error))

    def _measured(self) -> Report:
        now = self._broker.loop.time()
        seconds, self._at = max(now - self._at, 0.001), now
        led = {(p.topic, p.index): p for p in self._broker.replicas.led()}
        every = self._broker.topics.partitions()
        counted = {(p.topic, p.index): counts(p.carried) for p in every}
        self._rates = {
            key: smoothed(
                self._rates.get(key), rates(self._before.get(key, _NOTHING), counted[key], seconds)
            )
            for key in led
        }
        self._before = counted
        busiest = sorted(self._rates, key=lambda key: -sum(self._rates[key][:2]))[:PARTITIONS_MOST]
        loads = {key: (*self._rates[key], float(led[key].log.size_bytes)) for key in busiest}
        copying = self._broker.replicas.copied()
        return Report(loads, copying, tuple(sorted(damaged(self._broker))))


def counts(carried: Carried) -> Row:
    """In the order in which a report has them."""
    return carried.bytes_in, carried.bytes_out, carried.messages_in, carried.messages_out


def rates(before: Row, now: Row, seconds: float) -> Row:
    return tuple(max(b - a, 0) / seconds for a, b in zip(before, now, strict=True))


def smoothed(before: Row | None, now: Row) -> Row:
    """A moving mean, so that a burst does not look like load."""
    if before is None:
        return now
    return tuple(a + (b - a) * SMOOTHING for a, b in zip(before, now, strict=True))


def worth_telling(told: Report, now: Report) -> bool:
    """Whether anything is not nearly as it was told."""
    if (told.copying, told.damaged) != (now.copying, now.damaged):
        return True
    return told.loads.keys() != now.loads.keys() or _has_moved(told.loads, now.loads)


def _has_moved(told: Mapping[PartitionKey, Row], now: Mapping[PartitionKey, Row]) -> bool:
    return any(
        abs(a - b) > NOISE_BYTES + NOISE * max(a, b)
        for key, row in now.items()
        for a, b in zip(told[key], row, strict=True)
    )
