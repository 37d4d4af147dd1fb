"""The tables in PostgreSQL, as version 1 makes them.

A reading is stored as numbers, with the number of its *context*: what its texts say together. The
tables of the design are views that put the texts beside the numbers, for whoever asks in SQL.

| here | what it is |
|---|---|
| contexts | each combination of texts once; its series and its GPU have numbers as well |
| readings_stored, rollup_1m_stored, rollup_1h_stored | numbers, a partition for each day |
| latest_stored | the last reading of each series, and the time of its first |
| quarantine | what was refused, a partition for each day |
| store_… | whose store it is, the writer's turn, the last batch of each stream, and how far |
|   | derived tables are |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from nexus.telemetry.reading import DEVICE_COLUMNS, HOLDER_COLUMNS, READING_SCHEMA
from nexus.telemetry.tables import TABLES

TEXTS: Final = tuple(f.name for f in READING_SCHEMA if pa.types.is_string(f.type))
READING_NUMBERS: Final = ("timestamp", "ingested", "value", "source_value")
IDS: Final = ("gpu_id", "series_id", "context_id")
VALUES: Final = ("min", "max", "mean", "last", "p50", "p95", "p99")
MEASURES: Final = ("start", "count", "missing", *VALUES, "last_timestamp")
ROLLUPS: Final = ("rollup_1m", "rollup_1h")
# Parted by day, with the column of their time.
PARTED: Final = {
    "readings": "timestamp",
    "rollup_1m": "start",
    "rollup_1h": "start",
    "quarantine": "refused",
}
_TYPES: Final = {
    pa.string(): 'text COLLATE "C"',  # as everybody else compares them
    pa.float64(): "float8",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.binary(): "bytea",
    pa.date32(): "date",
}


def stored_name(table: str) -> str:
    """The table that is parted by day behind a name of the design."""
    return table if table == "quarantine" else f"{table}_stored"


def partition_name(table: str, day: str) -> str:
    """The part of a day such as 2025-07-18."""
    return f"{table}_{day.replace('-', '')}"


def columns(schema: pa.Schema, leave: Sequence[str] = ()) -> str:
    """A schema's columns in SQL."""
    return ", ".join(_column(field) for field in schema if field.name not in leave)


def _column(field: pa.Field) -> str:
    kind = "timestamptz" if pa.types.is_timestamp(field.type) else _TYPES[field.type]
    return f'"{field.name}" {kind}' + ("" if field.nullable else " NOT NULL")


def _listed(names: Sequence[str], of: str) -> str:
    return ", ".join(f'{of}."{name}"' for name in names)


_IDS: Final = "gpu_id int NOT NULL, series_id int NOT NULL, context_id int NOT NULL"
_NUMBERS: Final = columns(pa.schema([READING_SCHEMA.field(n) for n in READING_NUMBERS]))
_ROLLUP: Final = columns(pa.schema([TABLES["rollup_1m"].schema.field(n) for n in MEASURES]))
_SERIES_TEXTS: Final = ("metric", "instance", *DEVICE_COLUMNS, *HOLDER_COLUMNS)
# Of readings at one moment, one that names a holder tells more, and one of the whole device more
# than one of a link. Readings of a host name no GPU: their uuid is the host's name and a slash.
_GPUS: Final = f"""
SELECT {_listed((*DEVICE_COLUMNS, *HOLDER_COLUMNS, "labels"), "told")},
       min(l.first) AS first_seen, max(l."timestamp") AS last_seen
FROM (
  SELECT DISTINCT ON (c.uuid, c.mig) c.* FROM latest_stored l JOIN contexts c ON c.id = l.context_id
  WHERE NOT (c.uuid = c.hostname || '/' AND c.gpu = '')
  ORDER BY c.uuid, c.mig, l."timestamp" DESC, c.namespace DESC, c.pod DESC, c.container DESC,
           c.instance, c.metric
) told JOIN contexts c ON c.uuid = told.uuid AND c.mig = told.mig
  JOIN latest_stored l ON l.context_id = c.id
GROUP BY {_listed((*DEVICE_COLUMNS, *HOLDER_COLUMNS, "labels"), "told")}"""


def _rollup(name: str) -> str:
    # The index has all that a chart needs: the windows of a series lie minutes apart in the table.
    return f"""
CREATE TABLE {name}_stored ({_ROLLUP}, {_IDS}) PARTITION BY RANGE (start);
CREATE UNIQUE INDEX ON {name}_stored (gpu_id, series_id, start)
  INCLUDE (context_id, count, missing, min, max, mean, last, last_timestamp, p50, p95, p99);
CREATE INDEX ON {name}_stored USING brin (start);
CREATE VIEW {name} AS SELECT {_listed(MEASURES, "r")}, {_listed(_SERIES_TEXTS, "c")},
  (r.start AT TIME ZONE 'UTC')::date AS day
FROM {name}_stored r JOIN contexts c ON c.id = r.context_id;
"""


def _plain(name: str) -> str:
    spec = TABLES[name]
    key = ", ".join(f'"{column}"' for column in spec.key)
    return f"CREATE TABLE {name} ({columns(spec.schema)}, PRIMARY KEY ({key}));\n"


VERSION_1: Final = f"""
CREATE TABLE store_identity (id uuid NOT NULL DEFAULT gen_random_uuid());
INSERT INTO store_identity DEFAULT VALUES;
CREATE TABLE store_writer (epoch bigint NOT NULL, owner text NOT NULL);
INSERT INTO store_writer VALUES (0, '');
CREATE TABLE store_batches (app text PRIMARY KEY, number bigint NOT NULL, at timestamptz NOT NULL);
CREATE TABLE store_tables (name text PRIMARY KEY, version bigint NOT NULL DEFAULT 0,
  changed timestamptz);
INSERT INTO store_tables (name) VALUES ('readings'), ('quarantine'), ('latest'), ('gpus'),
  ('rollup_1m'), ('rollup_1h');
CREATE TABLE store_held (name text NOT NULL, start timestamptz NOT NULL, rows bigint NOT NULL,
  low timestamptz NOT NULL, high timestamptz NOT NULL, ingested timestamptz NOT NULL,
  PRIMARY KEY (name, start));
CREATE TABLE store_arrivals (minute timestamptz NOT NULL, version bigint NOT NULL,
  PRIMARY KEY (minute, version));
CREATE TABLE store_rollups (name text PRIMARY KEY, closed timestamptz NOT NULL,
  version bigint NOT NULL);
CREATE TABLE store_removed (day date PRIMARY KEY);

CREATE SEQUENCE context_ids AS int;
CREATE TABLE contexts (id int PRIMARY KEY DEFAULT nextval('context_ids'), of_series int NOT NULL,
  of_gpu int NOT NULL, series_a bigint NOT NULL, series_b bigint NOT NULL,
  hash bigint NOT NULL UNIQUE,
  {columns(pa.schema([READING_SCHEMA.field(name) for name in TEXTS]))});
CREATE INDEX ON contexts (series_a, series_b);
CREATE INDEX ON contexts (uuid, mig);

CREATE TABLE readings_stored ({_NUMBERS}, {_IDS}) PARTITION BY RANGE ("timestamp");
CREATE UNIQUE INDEX ON readings_stored (gpu_id, "timestamp", series_id);
CREATE INDEX ON readings_stored USING brin ("timestamp");
CREATE VIEW readings AS SELECT {_listed(READING_NUMBERS, "r")}, {_listed(TEXTS, "c")},
  (r."timestamp" AT TIME ZONE 'UTC')::date AS day
FROM readings_stored r JOIN contexts c ON c.id = r.context_id;
{"".join(map(_rollup, ROLLUPS))}
CREATE TABLE latest_stored ({_NUMBERS}, {_IDS}, first timestamptz NOT NULL,
  version bigint NOT NULL DEFAULT 0, PRIMARY KEY (series_id)) WITH (fillfactor = 50);
CREATE INDEX ON latest_stored (gpu_id);
CREATE INDEX ON latest_stored (context_id);
CREATE VIEW latest AS SELECT {_listed(READING_NUMBERS, "r")}, {_listed(TEXTS, "c")}
FROM latest_stored r JOIN contexts c ON c.id = r.context_id;
CREATE VIEW gpus AS {_GPUS};

CREATE TABLE quarantine ({columns(TABLES["quarantine"].schema, ("day",))},
  day date GENERATED ALWAYS AS ((refused AT TIME ZONE 'UTC')::date) STORED)
  PARTITION BY RANGE (refused);
CREATE INDEX ON quarantine (refused, topic, partition, "offset", "row");
{_plain("episodes")}{_plain("incidents")}
"""
