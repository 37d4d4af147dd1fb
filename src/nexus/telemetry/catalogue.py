"""The metric catalogue: every source name that is known, to its canonical metric and unit.

Names of both DCGM generations lead to one metric; an unknown name is kept, in snake case, with
the unit that its source said. Canonical names are understood as source names too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Final

from nexus.telemetry.errors import UnitError
from nexus.telemetry.metrics import device, health, host, links, load
from nexus.telemetry.metrics.declare import Kind, Metric, SourceName
from nexus.telemetry.units import PERCENT, RATIO, Unit, unit_in_help, unit_named

__all__ = [
    "DISTINGUISHING",
    "HOST_METRICS",
    "METRICS",
    "SOURCE_NAMES",
    "Kind",
    "Meaning",
    "Metric",
    "SourceName",
    "meaning_of",
    "snake_case",
    "unit_for",
    "usual_unit",
]

METRICS: Final[Mapping[str, Metric]] = {
    metric.name: metric
    for subject in (load, device, health, links, host)
    for metric in subject.METRICS
}

_CANONICAL_NAMES: Final = {m.name: (m, SourceName(m.name, m.unit)) for m in METRICS.values()}
SOURCE_NAMES: Final[Mapping[str, tuple[Metric, SourceName]]] = _CANONICAL_NAMES | {
    source.name: (metric, source) for metric in METRICS.values() for source in metric.sources
}

# What is measured of a host, so that a reading of it needs no GPU.
HOST_METRICS: Final = frozenset(metric.name for metric in host.METRICS)

# The labels that can tell series of one metric apart, and what an instance calls them.
DISTINGUISHING: Final[Mapping[str, str]] = {
    "nvlink": "link",
    "link": "link",
    "nvswitch": "nvswitch",
    "xid": "xid",
    "clock_event": "clock_event",
    "health_watch": "health_watch",
    "peer_gpu": "peer_gpu",
    "cpu": "cpu",
    "cpucore": "cpucore",
}

_MEANT_PERCENT_ONCE: Final = frozenset({"DCGM_FI_DEV_GPU_UTIL_RATIO"})
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_WORD: Final = re.compile(r"[^0-9a-zA-Z]+")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a source's name and unit mean: the metric, its factors, and whether the unit fits."""

    metric: str
    unit: str  # the canonical one, or what the source said of a metric that is not known
    multiply: int
    divide: int
    low: float
    high: float
    labels: frozenset[str]  # what an instance is made of
    instance: str  # what the name itself says of it
    problem: str = ""  # why the value cannot be understood


@lru_cache(maxsize=65_536)
def meaning_of(source_metric: str, unit: str) -> Meaning:
    """What a name means with the unit that was said ("" for the one that it usually has)."""
    known = SOURCE_NAMES.get(source_metric)
    if known is None:
        return _unknown(source_metric, unit)
    metric, source = known
    factor = _factor(unit or source.unit)
    fits = factor is not None and factor.canonical == metric.unit
    return Meaning(
        metric.name,
        metric.unit,
        factor.multiply if factor and fits else 1,
        factor.divide if factor and fits else 1,
        metric.low,
        metric.high,
        frozenset(metric.labels),
        source.instance,
        "" if fits else f"the unit {unit!r} does not measure {metric.name}",
    )


def usual_unit(source_metric: str) -> str:
    """The unit that a name usually has; "" if the name is not known."""
    known = SOURCE_NAMES.get(source_metric)
    return known[1].unit if known else ""


def unit_for(source_metric: str, help_text: str = "", exporter: tuple[int, ...] = ()) -> str:
    """The unit to stamp on a scraped metric, by its name, its HELP and the exporter's version.

    A name settles it, help texts being edited and wrong at times; but one name has meant two
    units, and of an unknown one there is nothing else to go by.
    """
    if source_metric not in SOURCE_NAMES:
        return unit_in_help(help_text)
    if source_metric not in _MEANT_PERCENT_ONCE:
        return usual_unit(source_metric)
    said = unit_in_help(help_text)
    if said in (PERCENT, RATIO):
        return said
    return PERCENT if exporter and exporter < (4, 9) else RATIO


def snake_case(name: str) -> str:
    """A name that is not known, as tables spell names."""
    return _NOT_WORD.sub("_", _CAMEL.sub("_", name)).strip("_").lower()


def _unknown(name: str, unit: str) -> Meaning:
    labels = frozenset(DISTINGUISHING.values())
    return Meaning(snake_case(name), unit, 1, 1, -inf, inf, labels, "")


def _factor(unit: str) -> Unit | None:
    try:
        return unit_named(unit)
    except UnitError:
        return None
