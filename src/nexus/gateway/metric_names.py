"""Metric names as clients write them, canonical or a source's, and back to a source's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from nexus.telemetry.catalogue import METRICS, SOURCE_NAMES, SourceName, snake_case
from nexus.telemetry.units import unit_named


@dataclass(frozen=True, slots=True)
class SourceForm:
    """How a source writes a canonical metric: its name, its unit and the way there."""

    name: str
    unit: str
    multiply: int = 1  # of a canonical value
    divide: int = 1


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The metrics that were asked for, and under which names."""

    canonical: tuple[str, ...] = ()
    instances: tuple[tuple[str, str], ...] = ()  # of metrics that were asked for by link
    # By canonical name and instance.
    asked: dict[tuple[str, str], SourceName] = field(default_factory=dict)

    def source_form(self, metric: str, instance: str, unit: str) -> SourceForm:
        """What DCGM calls a metric: as it was asked for, else by the older and usual name."""
        asked = self.asked.get((metric, instance)) or self.asked.get((metric, ""))
        source = asked or _usual(metric, instance)
        if source is None:
            return SourceForm(metric, unit)
        known = unit_named(source.unit)
        return SourceForm(source.name, source.unit, known.divide, known.multiply)


def metric_names(names: Iterable[str]) -> MetricNames:
    """Canonical and source names, each understood; an unknown one as the tables spell it.

    A name that has a link's number in it means the metric on that link.
    """
    meant: dict[tuple[str, str], None] = {}  # metric and instance, "" for all of them
    asked: dict[tuple[str, str], SourceName] = {}
    for name in names:
        known = SOURCE_NAMES.get(name)
        metric = known[0].name if known else snake_case(name)
        instance = known[1].instance if known else ""
        meant[metric, instance] = None
        if known and name != metric:
            asked.setdefault((metric, instance), known[1])
    links = tuple((metric, each) for metric, each in meant if each and (metric, "") not in meant)
    return MetricNames(tuple(dict.fromkeys(metric for metric, _ in meant)), links, asked)


ALL_METRICS: Final = MetricNames()


def _usual(metric: str, instance: str) -> SourceName | None:
    known = METRICS.get(metric)
    if known is None:
        return None
    fitting = [source for source in known.sources if source.instance == instance]
    plain = [source for source in known.sources if not source.instance]
    return next(iter((*fitting, *plain)), None)
