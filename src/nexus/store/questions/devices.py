"""Each GPU as last known, with the few last values that tell what it is doing.

Who a GPU is follows the rules of the table `gpus`: its newest reading says so; of readings at one
moment, one that names a holder tells more, and one of the whole device more than one of a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from nexus.store.questions.conditions import Conditions
from nexus.store.questions.database import Database
from nexus.telemetry.tables import TABLES

# The metric of each value, by the name that it has here.
VALUES: Final = {
    "engine": "engine_active",
    "util": "gpu_util",
    "memory_used": "memory_used",
    "memory_free": "memory_free",
    "memory_total": "memory_total",
    "power": "power",
    "temperature": "gpu_temperature",
}
_SCHEMA: Final = TABLES["gpus"].schema
_TOLD: Final = [name for name in _SCHEMA.names if name not in ("first_seen", "last_seen")]
_EMPTY: Final = pa.schema([field.with_nullable(True) for field in _SCHEMA]).empty_table()


def devices(database: Database, last: pa.Table, gpus: Sequence[str] = ()) -> pa.Table:
    """A row for each GPU and MIG instance: the columns of `gpus`, and for each of VALUES its
    last value and when that was read (`power`, `power_at`)."""
    where = Conditions()
    tables = {"last_known": last}
    if gpus:  # files of the table
        paths = where.bind(database.paths("gpus", gpus))
        known = f"read_parquet({paths}, hive_partitioning = false)"
    else:
        known, tables["no_gpus"] = "no_gpus", _EMPTY
    return database.ask(_statement(known, where), where.params, tables)


def _statement(known: str, where: Conditions) -> str:
    told = ", ".join(_TOLD)
    # Several pods can share a GPU, and each has a series: the newest, and of those the greatest.
    newest = ", ".join(
        "max({'at': timestamp, 'value': coalesce(value, '-infinity'::DOUBLE)})"
        f" FILTER (metric = {where.bind(metric)}) AS {name}"
        for name, metric in VALUES.items()
    )
    values = ", ".join(
        f"CASE WHEN isfinite({name}.value) THEN {name}.value END AS {name}, {name}.at AS {name}_at"
        for name in VALUES
    )
    # Less the readings of a host that name no GPU: their uuid is the host's name and a slash.
    return f"""
        WITH of_gpus AS (
          SELECT * FROM last_known WHERE NOT (uuid = hostname || '/' AND gpu = '')
        ), known AS (SELECT * FROM {known}), choice AS (
          SELECT {told}, timestamp AS last_seen, instance, metric, 0 AS rank FROM of_gpus
          UNION ALL SELECT {told}, last_seen, '', '', 1 FROM known
        ), told AS (
          SELECT {told}, last_seen FROM choice
          QUALIFY row_number() OVER (
            PARTITION BY uuid, mig ORDER BY last_seen DESC, rank, namespace DESC, pod DESC,
            container DESC, instance, metric) = 1
        ), began AS (
          SELECT uuid, mig, min(first_seen) AS first_seen FROM (
            SELECT uuid, mig, first_seen FROM known
            UNION ALL SELECT uuid, mig, first FROM of_gpus)
          GROUP BY ALL
        ), measured AS (
          SELECT uuid, mig, {newest} FROM of_gpus GROUP BY uuid, mig
        )
        SELECT {told}, coalesce(first_seen, last_seen) AS first_seen, last_seen, {values}
        FROM told JOIN began USING (uuid, mig) LEFT JOIN measured USING (uuid, mig)"""
