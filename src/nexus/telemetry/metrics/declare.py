"""How a metric is declared: its canonical form, and the names and units that sources use."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final

LINKS: Final = range(18)  # an NVLink GPU has at most this many lanes


class Kind(StrEnum):
    """How a metric moves: a gauge either way, a counter only up until it is reset."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class SourceName:
    """A name that a source gives a metric, the unit it usually means, and what it is part of."""

    name: str
    unit: str
    instance: str = ""  # "link=3" for a name that has the link in it


@dataclass(frozen=True, slots=True)
class Metric:
    """A canonical metric; `labels` are those that make series of one GPU different ones."""

    name: str
    unit: str
    kind: Kind
    low: float
    high: float
    description: str
    labels: tuple[str, ...] = ()
    sources: tuple[SourceName, ...] = field(default=(), repr=False)


def gauge(
    name: str,
    unit: str,
    high: float,
    description: str,
    sources: Mapping[str, str],
    *,
    low: float = 0.0,
    labels: tuple[str, ...] = (),
    lanes: Iterable[SourceName] = (),
) -> Metric:
    """A metric that goes up and down between physical bounds."""
    named = tuple(SourceName(source, said) for source, said in sources.items())
    return Metric(name, unit, Kind.GAUGE, low, high, description, labels, (*named, *lanes))


def counter(
    name: str,
    unit: str,
    description: str,
    sources: Mapping[str, str],
    *,
    labels: tuple[str, ...] = (),
    lanes: Iterable[SourceName] = (),
) -> Metric:
    """A metric that only goes up, without an upper bound."""
    named = tuple(SourceName(source, said) for source, said in sources.items())
    return Metric(name, unit, Kind.COUNTER, 0.0, inf, description, labels, (*named, *lanes))


def lane_names(pattern: str, unit: str) -> tuple[SourceName, ...]:
    """The names that have a link's number in them, such as DCGM_FI_DEV_NVLINK_BANDWIDTH_L3."""
    return tuple(SourceName(pattern.format(link), unit, f"link={link}") for link in LINKS)
