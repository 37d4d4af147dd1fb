"""The tables, defined once for every store: columns, what a row is, and how files are parted.

`readings` and `quarantine` are written by the stream, each exactly once; all others are derived
from committed versions of `readings` and can be built again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from nexus.telemetry.identity import IDENTITY_COLUMNS, SERIES_COLUMNS
from nexus.telemetry.reading import DEVICE_COLUMNS, HOLDER_COLUMNS, READING_SCHEMA, TIMESTAMP


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table: its schema, the columns that tell rows apart, and those that part its files."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...]
    partitions: tuple[str, ...]
    description: str


def _text(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.string(), nullable=False) for name in names]


def _moment(name: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, TIMESTAMP, nullable=nullable)


def _whole(name: str, kind: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, kind or pa.int64(), nullable=False)


def _measure(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.float64()) for name in names]


_DAY: Final = pa.field("day", pa.date32(), nullable=False)
_DEVICE: Final = _text(*DEVICE_COLUMNS)
_HOLDER: Final = _text(*HOLDER_COLUMNS)

_READINGS: Final = pa.schema([*READING_SCHEMA, _DAY])
_QUARANTINE: Final = pa.schema(
    [
        _moment("refused"),
        *_text("reason", "stage", "topic"),
        _whole("partition", pa.int32()),
        _whole("offset"),
        _whole("row", pa.int32()),  # of the reading in its message
        *_text("content_type", "source"),
        pa.field("raw", pa.binary(), nullable=False),
        _DAY,
    ]
)
_ROLLUP: Final = pa.schema(
    [
        _moment("start"),
        *_text("metric", "instance"),
        *_DEVICE,
        *_HOLDER,
        _whole("count"),  # of values that were collected
        _whole("missing"),  # of readings that said "not collected"
        *_measure("min", "max", "mean", "last"),
        _moment("last_timestamp", nullable=True),
        *_measure("p50", "p95", "p99"),
        _DAY,
    ]
)
_GPUS: Final = pa.schema(
    [*_DEVICE, *_HOLDER, *_text("labels"), _moment("first_seen"), _moment("last_seen")]
)
_EPISODES: Final = pa.schema(
    [
        *_text("kind"),  # "allocated" or "idle"
        _moment("start"),
        _moment("end", nullable=True),  # null while it lasts
        *_DEVICE,
        *_HOLDER,
        *_measure("share", "seconds", "idle_seconds", "busy_mean", "energy"),
        _DAY,
    ]
)
_INCIDENTS: Final = pa.schema(
    [
        *_text("id", "rule", "severity", "summary", "action"),
        _moment("start"),
        _moment("end", nullable=True),
        *_DEVICE,
        *_HOLDER,
        *_text("metric", "instance"),
        _whole("count"),
        *_measure("value", "threshold"),
        *_text("details"),  # a JSON object
        _DAY,
    ]
)
_ROLLUP_KEY: Final = (*SERIES_COLUMNS, "start")

TABLES: Final[Mapping[str, TableSpec]] = {
    table.name: table
    for table in (
        TableSpec(
            "readings", _READINGS, IDENTITY_COLUMNS, ("day",), "Every reading, by day of its time"
        ),
        TableSpec(
            "quarantine",
            _QUARANTINE,
            ("topic", "partition", "offset", "row"),
            ("day",),
            "What was refused, why, and where in the queue it stands",
        ),
        TableSpec("rollup_1m", _ROLLUP, _ROLLUP_KEY, ("day",), "Each series by the minute"),
        TableSpec("rollup_1h", _ROLLUP, _ROLLUP_KEY, ("day",), "Each series by the hour"),
        TableSpec("latest", READING_SCHEMA, SERIES_COLUMNS, (), "The last value of each series"),
        TableSpec("gpus", _GPUS, ("uuid", "mig"), (), "Who each GPU is, as last known"),
        TableSpec(
            "episodes",
            _EPISODES,
            ("kind", "uuid", "mig", "namespace", "pod", "container", "start"),
            ("day",),
            "Times in which a pod held a GPU, or a GPU stood idle",
        ),
        TableSpec("incidents", _INCIDENTS, ("id",), ("day",), "What broke, or is about to"),
    )
}
