"""Counters, gauges and histograms cheap enough for an event loop's hot path.

Whoever counts keeps the `Counter` or `Histogram` it got from its family and pays an integer
addition; the text for Prometheus is made from a snapshot, which any thread may encode.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Final, Generic, Literal, NamedTuple, Protocol, TypeVar

SERIES_MAX: Final = 10_000
OTHER: Final = "_other"
LATENCY_BOUNDS_S: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)

LabelValues = tuple[str, ...]
Kind = Literal["counter", "gauge", "histogram"]
GaugeRows = Iterable[tuple[Sequence[str], float]]

_log = logging.getLogger(__name__)


class HistogramState(NamedTuple):
    """A histogram at one moment: counts up to and including each bound, the last one for all."""

    bounds: tuple[float, ...]
    cumulative: tuple[int, ...]
    sum: float


class FamilySnapshot(NamedTuple):
    """One metric with all its series, detached from what goes on counting."""

    kind: Kind
    name: str
    meaning: str
    label_names: LabelValues
    rows: list[tuple[LabelValues, float | HistogramState]]


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, n: int = 1) -> None:
        self.value += n

    def state(self) -> float:
        return self.value


class Histogram:
    """How often a value fell at or below each bound."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_S) -> None:
        if not bounds or any(a >= b for a, b in pairwise(bounds)):
            raise ValueError(f"bounds must be given in rising order, not {list(bounds)}")
        self.bounds = list(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def state(self) -> HistogramState:
        return HistogramState(tuple(self.bounds), tuple(accumulate(self.counts)), self.sum)


class _Series(Protocol):
    def state(self) -> float | HistogramState: ...


S = TypeVar("S", bound=_Series)


class Family(Generic[S]):
    """The series of one metric, one for each combination of label values.

    Clients choose some label values (topics, groups), so their number has a bound: what comes
    after `series_max` combinations is counted together, under the label value `_other`.
    """

    def __init__(
        self,
        kind: Kind,
        name: str,
        meaning: str,
        label_names: Sequence[str],
        make: Callable[[], S],
        *,
        series_max: int = SERIES_MAX,
    ) -> None:
        self.kind, self.name, self.meaning = kind, name, meaning
        self.label_names = tuple(label_names)
        self._make = make
        self._series: dict[LabelValues, S] = {}
        self._series_max = series_max

    def labels(self, **values: object) -> S:
        """The series with these label values: always the same object for the same values."""
        if len(values) != len(self.label_names):
            raise ValueError(f"{self.name} has the labels {self.label_names}, not {tuple(values)}")
        key = tuple([str(values[name]) for name in self.label_names])
        return self._series.get(key) or self._add(key)

    def forget(self, **values: object) -> None:
        """Drop every series that has these label values, for a topic or group that is gone."""
        wanted = {self.label_names.index(name): str(value) for name, value in values.items()}
        for key in list(self._series):
            if all(key[i] == value for i, value in wanted.items()):
                del self._series[key]

    def snapshot(self) -> FamilySnapshot:
        rows = [(key, series.state()) for key, series in list(self._series.items())]
        return FamilySnapshot(self.kind, self.name, self.meaning, self.label_names, rows)

    def _add(self, key: LabelValues) -> S:
        if len(self._series) >= self._series_max:
            key = (OTHER,) * len(key)
        return self._series.setdefault(key, self._make())


class Gauge:
    """A metric with no state of its own: it is computed when somebody asks."""

    def __init__(
        self,
        name: str,
        meaning: str,
        label_names: Sequence[str],
        collect: Callable[[], GaugeRows],
    ) -> None:
        self.name, self.meaning, self.label_names = name, meaning, tuple(label_names)
        self._collect = collect

    def snapshot(self) -> FamilySnapshot:
        return FamilySnapshot("gauge", self.name, self.meaning, self.label_names, self._rows())

    def _rows(self) -> list[tuple[LabelValues, float | HistogramState]]:
        # One gauge that cannot be computed must not hide all the others from the operator.
        try:
            return [(tuple(map(str, labels)), float(value)) for labels, value in self._collect()]
        except Exception:  # noqa: BLE001
            _log.warning("the gauge %s could not be computed", self.name, exc_info=True)
            return []


class Registry:
    """Every metric of one part, in the order in which they were declared."""

    def __init__(self) -> None:
        self._metrics: dict[str, Family[Counter] | Family[Histogram] | Gauge] = {}

    def counter(
        self, name: str, meaning: str, labels: Sequence[str] = (), *, series_max: int = SERIES_MAX
    ) -> Family[Counter]:
        family = Family("counter", name, meaning, labels, Counter, series_max=series_max)
        self._declare(name, family)
        return family

    def histogram(
        self,
        name: str,
        meaning: str,
        labels: Sequence[str] = (),
        bounds: Sequence[float] = LATENCY_BOUNDS_S,
        *,
        series_max: int = SERIES_MAX,
    ) -> Family[Histogram]:
        make = partial(Histogram, bounds)
        family = Family("histogram", name, meaning, labels, make, series_max=series_max)
        self._declare(name, family)
        return family

    def gauge(
        self,
        name: str,
        meaning: str,
        labels: Sequence[str] = (),
        *,
        collect: Callable[[], GaugeRows],
    ) -> Gauge:
        gauge = Gauge(name, meaning, labels, collect)
        self._declare(name, gauge)
        return gauge

    def snapshot(self) -> list[FamilySnapshot]:
        """Everything as it stands; to be called where the gauges may read their sources."""
        return [metric.snapshot() for metric in self._metrics.values()]

    def values(self, name: str) -> Mapping[LabelValues, float | HistogramState]:
        """The series of one metric, by label values."""
        return dict(self._metrics[name].snapshot().rows)

    def render(self) -> bytes:
        """The Prometheus text, for callers that need not care how long it takes."""
        from nexus.observe.exposition import encode  # noqa: PLC0415 - slow to load, see there

        return encode(self.snapshot())

    def _declare(self, name: str, metric: Family[Counter] | Family[Histogram] | Gauge) -> None:
        if name in self._metrics:
            raise ValueError(f"there is already a metric named {name}")
        self._metrics[name] = metric
