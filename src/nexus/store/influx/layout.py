"""Where things are in InfluxDB, as version 1 has it.

| measurement | policy | its points |
|---|---|---|
| readings | readings | a reading: tags say which series it is of, and which context it has |
| rollup_1m, rollup_1h | of the same name | a window of a series |
| latest | nexus | the last reading of a series, as of some version |
| quarantine | quarantine | what was refused |
| contexts | nexus | what the texts of a reading say together, by the number that they have |
| journal, checkpoint | nexus | a commit each, at the moment of its number; all of them together |
| begun, writer, schema | nexus | the batch that was begun last, the writer's turn, the version |

A point is its measurement, its tags and its time: one that comes again takes the place of the one
before. Policies keep for ever and are apart for their shards alone: InfluxDB's own limit goes by a
point's time, and it would throw an archive of years ago away as it comes.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import READING_SCHEMA

OWN: Final = "nexus"
# The time that a shard has: of what is asked for by the hour, days; of what is small, years.
POLICIES: Final = {
    "readings": "1d",
    "rollup_1m": "7d",
    "rollup_1h": "52w",
    "quarantine": "7d",
    OWN: "520w",
}
ROLLUPS: Final = ("rollup_1m", "rollup_1h")
TEXTS: Final = tuple(f.name for f in READING_SCHEMA if pa.types.is_string(f.type))
CONTEXT: Final = "context"
# A GPU's place follows from the context: it makes no series more, and charts go by it.
READING_TAGS: Final = (*SERIES_COLUMNS, CONTEXT, "gpu", "hostname")
VALUES: Final = ("min", "max", "mean", "last", "p50", "p95", "p99")


def policy_of(measurement: str) -> str:
    """The retention policy that a measurement is in."""
    return measurement if measurement in POLICIES else OWN


def place_of(measurement: str) -> str:
    """A measurement as a statement names it."""
    return f'"{policy_of(measurement)}"."{measurement}"'
