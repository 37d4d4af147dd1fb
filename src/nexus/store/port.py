"""The query port: what the gateway asks of any store.

Synchronous and safe to call from several threads; answers are Arrow tables with plain columns.
A snapshot pins one version of every table, so that all answers of a request agree. A table that
does not exist yet is an empty one. StoreAway, TooMuch and the other errors are in `errors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import DEVICE_COLUMNS, HOLDER_COLUMNS, READING_SCHEMA, TIMESTAMP
from nexus.telemetry.tables import TABLES

LIMIT_MAX: Final = 100_000  # rows of one page
RAW_MAX: Final = 16_384  # bytes that are shown of what was refused; `raw_size` says how many it has

# What tells the rows of an answer apart, and their order.
GPU_KEY: Final = ("uuid", "mig")
READING_KEY: Final = ("timestamp", *SERIES_COLUMNS)
ROLLUP_KEY: Final = ("start", *SERIES_COLUMNS)
LATEST_KEY: Final = SERIES_COLUMNS
QUARANTINE_KEY: Final = ("refused", "topic", "partition", "offset", "row")

SUMMARY_GROUPS: Final = (
    "cluster",
    "hostname",
    "uuid",
    "gpu",
    "model",
    "namespace",
    "pod",
    "metric",
)
FLEET_GROUPS: Final = ("cluster", "hostname", "uuid", "gpu", "model", "namespace", "pod")


def _text(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.string(), nullable=False) for name in names]


def _counts(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.int64(), nullable=False) for name in names]


def _measures(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.float64()) for name in names]


GPU_ROWS: Final = pa.schema([*TABLES["gpus"].schema, *_text("state"), *_measures("busy")])
READING_ROWS: Final = READING_SCHEMA
ROLLUP_ROWS: Final = pa.schema(
    [
        pa.field("start", TIMESTAMP, nullable=False),
        *_text("metric", "instance", *DEVICE_COLUMNS, *HOLDER_COLUMNS),
        *_text("unit"),  # the canonical one
        *_counts("count", "missing"),
        *_measures("min", "max", "mean", "last"),
        pa.field("last_timestamp", TIMESTAMP),
    ]
)
QUARANTINE_ROWS: Final = pa.schema(
    [*(f for f in TABLES["quarantine"].schema if f.name != "day"), *_counts("raw_size")]
)
METRIC_ROWS: Final = pa.schema(
    [*_text("metric", "unit"), *_counts("series"), pa.field("newest", TIMESTAMP, nullable=False)]
)
TABLE_ROWS: Final = pa.schema(
    [
        *_text("name"),
        *_counts("version", "rows", "files", "bytes"),
        *(pa.field(name, TIMESTAMP) for name in ("oldest", "newest", "last_commit")),
    ]
)


def summary_rows(by: tuple[str, ...]) -> pa.Schema:
    """The columns of a summary by these groups; percentiles may be off by what their errors say."""
    return pa.schema(
        [
            *_text(*summary_groups(by)),
            *_text("unit"),
            *_counts("count", "missing"),
            *_measures("min", "max", "mean", "p50", "p95", "p99"),
            *_measures("p50_error", "p95_error", "p99_error"),
            pa.field("exact", pa.bool_(), nullable=False),
        ]
    )


def summary_groups(by: tuple[str, ...]) -> tuple[str, ...]:
    """Readings of different metrics are never put together."""
    return tuple(dict.fromkeys((*by, "metric")))


def group_rows(by: tuple[str, ...]) -> pa.Schema:
    """The columns of groups by steps of time."""
    return pa.schema(
        [
            pa.field("start", TIMESTAMP, nullable=False),
            *_text(*summary_groups(by)),
            *_text("unit"),
            *_counts("members"),
            *_measures("mean", "sum", "min", "max"),
        ]
    )


def fleet_rows(by: tuple[str, ...]) -> pa.Schema:
    """The columns of the fleet by these groups."""
    return pa.schema(
        [
            *_text(*by),
            *_counts("hosts", "gpus", "active", "idle_held", "free", "unknown"),
            *_measures("power_w", "busy_mean", "memory_used", "memory_total", "temperature_max"),
            pa.field("last_seen", TIMESTAMP),
        ]
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """Which series: a column's value must be one of those named; nothing named means any."""

    uuids: tuple[str, ...] = ()
    migs: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()  # the index on its host, as text
    hostnames: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()  # canonical names
    # Metric and instance: of such a metric these alone, such as one link; of others all.
    instances: tuple[tuple[str, str], ...] = ()

    def instances_by_metric(self) -> dict[str, list[str]]:
        """The instances of each metric of which not all are meant."""
        found: dict[str, list[str]] = {}
        for metric, instance in self.instances:
            found.setdefault(metric, []).append(instance)
        return found


ANY: Final = Selection()


@dataclass(frozen=True, slots=True)
class Span:
    """Time in microseconds since 1970, inclusive at both ends."""

    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of an answer: at most `limit` rows after the key of the last row that was given.

    A key is a row's values in the columns of the query's key; moments are whole microseconds. Where
    columns are named, a store may leave out all others, which it need not read then.
    """

    limit: int
    after: tuple[Any, ...] | None = None
    descending: bool = False
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSteps:
    """Groups of GPUs by steps of time: what is put together, and how much of it is asked for."""

    step_s: int
    by: tuple[str, ...]  # some of SUMMARY_GROUPS
    limit: int  # rows
    top: int | None = None  # groups of each metric: those with the greatest sums
    descending: bool = False


class Snapshot(Protocol):
    """Every table at one version."""

    @property
    def versions(self) -> Mapping[str, int]:
        """The version of each table that exists."""

    def gpus(self, which: Selection, states: tuple[str, ...], page: Page) -> pa.Table:
        """GPUs and MIG instances as last known (GPU_ROWS), by GPU_KEY.

        `metrics` and `instances` of the selection do not count. `busy` is null where nothing tells.
        """

    def gpu(self, uuid: str) -> pa.Table:
        """One GPU with all its instances (GPU_ROWS); no rows if nobody knows it."""

    def gpus_named(self, prefix: str) -> list[str]:
        """The first two uuids that begin so: one means that the prefix is unique."""

    def readings(self, which: Selection, span: Span, page: Page) -> pa.Table:
        """Readings as they came (READING_ROWS), by READING_KEY."""

    def rollups(self, which: Selection, span: Span, step_s: int, page: Page) -> pa.Table:
        """Each series by steps of time (ROLLUP_ROWS), by ROLLUP_KEY.

        Steps are counted from 1970. Every step that the span touches is there, and whole: it is
        made of all its readings, those outside the span too. So the same step is the same in
        every answer. What the device was called is what the last reading of a step says.
        """

    def groups(self, which: Selection, span: Span, steps: GroupSteps) -> pa.Table:
        """Groups of GPUs by steps of time (`group_rows`), by time and then by group.

        In a step each GPU, MIG instance or link is one member with one value, the mean of its
        readings, however many pods share it: `mean` and `sum` are of those, `min` and `max` of
        all readings. Steps are whole, as in `rollups`; one without any value is left out.
        """

    def latest(self, which: Selection, page: Page, since_us: int | None = None) -> pa.Table:
        """The last reading of each series (READING_ROWS), by LATEST_KEY.

        A GPU has a series for every pod that ever held it: `since_us` leaves out those that had
        no reading since, and makes the answer cheap however many there were.
        """

    def summary(self, which: Selection, span: Span, by: tuple[str, ...]) -> pa.Table:
        """What the readings of a span amount to (`summary_rows`), in the order of its groups.

        Count, least, greatest and mean are exact. Percentiles are nearest ranks, exact where
        `exact` says so; otherwise the true one lies within its error of the one given.
        """

    def fleet(self, which: Selection, by: tuple[str, ...]) -> pa.Table:
        """How many GPUs there are and what they do (`fleet_rows`), in the order of the groups.

        A GPU counts once however many pods share it. Sums are of GPUs that are not unknown.
        """

    def metrics(self, which: Selection) -> pa.Table:
        """The metrics that have readings (METRIC_ROWS), with their newest, by name."""

    def quarantine(self, span: Span, reasons: tuple[str, ...], page: Page) -> pa.Table:
        """What was refused in a span (QUARANTINE_ROWS), by QUARANTINE_KEY."""

    def tables(self) -> pa.Table:
        """What the store holds (TABLE_ROWS); a table that does not exist has no row."""


class Store(Protocol):
    """A store that can be asked."""

    def snapshot(self) -> Snapshot:
        """The newest versions, as of at most about a quarter of a second ago."""

    def close(self) -> None:
        """Let go of everything; safe to call twice."""


def only(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The columns of a schema that are needed, in its order; all if none are named."""
    return pa.schema([field for field in schema if not columns or field.name in columns])


def last_key(rows: pa.Table, key: tuple[str, ...]) -> tuple[Any, ...] | None:
    """The key of the last row: where the next page begins. None if there are no rows."""
    if not rows.num_rows:
        return None
    last = rows.slice(rows.num_rows - 1)
    return tuple(_plain(last.column(name).combine_chunks()) for name in key)


def _plain(column: pa.Array) -> Any:
    moment = pa.types.is_timestamp(column.type)
    return (column.cast(pa.int64()) if moment else column)[0].as_py()
