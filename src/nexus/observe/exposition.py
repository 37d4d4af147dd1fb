"""Metric snapshots as Prometheus text, with the process's own CPU, memory and descriptors.

Nothing here touches live state, so a worker thread can do it. Loading prometheus_client takes
tens of milliseconds: import this module when the first scrape comes, not at start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from nexus.observe.metrics import FamilySnapshot, HistogramState

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
_PROCESS: Final = ProcessCollector(registry=None)


class SnapshotCollector(Collector):
    """Presents snapshots to prometheus_client as its own metric families."""

    def __init__(self, snapshots: Sequence[FamilySnapshot]) -> None:
        self._snapshots = snapshots

    def collect(self) -> Iterable[Metric]:
        yield from map(_to_metric, self._snapshots)
        yield from _PROCESS.collect()


def encode(snapshots: Sequence[FamilySnapshot]) -> bytes:
    return generate_latest(SnapshotCollector(snapshots))


def _to_metric(family: FamilySnapshot) -> Metric:
    if family.kind == "histogram":
        return _histogram(family)
    make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = make(family.name, family.meaning, labels=family.label_names)
    for labels, value in family.rows:
        if not isinstance(value, HistogramState):
            metric.add_metric(labels, value)
    return metric


def _histogram(family: FamilySnapshot) -> Metric:
    metric = HistogramMetricFamily(family.name, family.meaning, labels=family.label_names)
    for labels, state in family.rows:
        if isinstance(state, HistogramState):
            metric.add_metric(labels, buckets=list(_buckets(state)), sum_value=state.sum)
    return metric


def _buckets(state: HistogramState) -> Iterator[tuple[str, float]]:
    bounds = (*map(str, state.bounds), "+Inf")
    yield from zip(bounds, state.cumulative, strict=True)
