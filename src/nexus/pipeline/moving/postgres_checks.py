"""Whether a day in PostgreSQL is as the store's own counts say, and how fresh its rollups are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import psycopg

from nexus.pipeline.moving.port import DERIVED, Slice
from nexus.store.postgres.layout import stored_name
from nexus.store.questions.held import EPOCH, TICK
from nexus.store.questions.spans import MINUTE, Stretch, inner, joined, less, outer

_COUNTED: Final = """
SELECT start, coalesce(h.rows, 0), coalesce(r.rows, 0) FROM (
  SELECT start, rows FROM store_held WHERE name = %(name)s AND start >= %(low)s AND start < %(high)s
) h FULL JOIN (
  SELECT date_trunc('hour', "{column}") AS start, count(*) AS rows FROM {table}
  WHERE "{column}" >= %(low)s AND "{column}" < %(high)s GROUP BY 1
) r USING (start) WHERE coalesce(h.rows, 0) <> coalesce(r.rows, 0) ORDER BY start"""
_NAMELESS: Final = """
SELECT count(*) FROM {table} r WHERE r."{column}" >= %(low)s AND r."{column}" < %(high)s
  AND NOT EXISTS (SELECT FROM contexts c WHERE c.id = r.context_id)"""


def faults_of(cursor: psycopg.Cursor[Any], part: Slice) -> list[str]:
    """Hours that have other rows than were counted, and rows without texts."""
    params = {"name": part.table, "low": part.since, "high": part.until}
    names = {"table": stored_name(part.table), "column": part.column}
    found = []
    if part.is_whole:
        for start, said, there in cursor.execute(_COUNTED.format(**names), params).fetchall():
            hour = f"{start:%H:%M}"
            found.append(f"the hour of {hour} has {there:,} rows, and {said:,} were counted")
    if part.table != "quarantine":
        row = cursor.execute(_NAMELESS.format(**names), params).fetchone()
        if row is not None and row[0]:
            found.append(f"{row[0]:,} rows have no context")
    return found


def fresh_windows(cursor: psycopg.Cursor[Any], part: Slice) -> list[Stretch]:
    """The windows of a day that a rollup has closed, and that nothing came to since."""
    row = cursor.execute(
        "SELECT closed, version FROM store_rollups WHERE name = %s", (part.table,)
    ).fetchone()
    if row is None:
        return []
    width = DERIVED[part.table]
    closed = (row[0] - EPOCH) // TICK
    arrived = cursor.execute(
        "SELECT DISTINCT minute FROM store_arrivals"
        " WHERE version > %s AND minute >= %s AND minute < %s",
        (row[1], part.since - timedelta(hours=1), part.until),
    ).fetchall()
    minutes = ((minute - EPOCH) // TICK for (minute,) in arrived)
    stale = joined(outer(Stretch(start, start + MINUTE), width) for start in minutes)
    return inner(less([Stretch(part.low, min(part.high, closed))], stale), width)
