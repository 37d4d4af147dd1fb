"""What is older than it may be goes, a day at a time: its partition is dropped.

A day goes only when its end and whatever was ingested for it last are older: a day that is loaded
again after years stays as long as a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta

from nexus.store.postgres.connecting import Connection
from nexus.store.postgres.layout import partition_name
from nexus.store.postgres.lock import Turn, hold_turn


def sweep(
    connection: Connection,
    turn: Turn,
    retention: Mapping[str, timedelta],
    now: datetime,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, int]:
    """Drop the days of each table that are too old; how many of each went."""
    removed = dict.fromkeys(retention, 0)
    for name, kept in retention.items():
        for day in _days(connection, name, now - kept):
            if stopped():
                break
            _drop(connection, turn, name, day)
            removed[name] += 1
    return removed


def _days(connection: Connection, name: str, before: datetime) -> list[date]:
    rows = connection.execute(
        "SELECT (start AT TIME ZONE 'UTC')::date AS day FROM store_held WHERE name = %(name)s"
        " GROUP BY 1 HAVING ((start AT TIME ZONE 'UTC')::date + 1) <= %(before)s::date"
        " AND max(ingested) < %(before)s ORDER BY 1",
        {"name": name, "before": before},
    ).fetchall()
    return [day for (day,) in rows]


def _drop(connection: Connection, turn: Turn, name: str, day: date) -> None:
    """One day in one transaction; it waits for questions that read the day, not for long."""
    with connection.transaction():
        hold_turn(connection, turn)
        connection.execute("SET LOCAL lock_timeout = '30s'")
        connection.execute(f"DROP TABLE IF EXISTS {partition_name(name, day.isoformat())}")
        connection.execute(
            "DELETE FROM store_held WHERE name = %s AND (start AT TIME ZONE 'UTC')::date = %s",
            (name, day),
        )
        connection.execute(
            "UPDATE store_tables SET version = version + 1, changed = now() WHERE name = %s",
            (name,),
        )
        if name == "readings":
            connection.execute(
                "INSERT INTO store_removed VALUES (%s) ON CONFLICT DO NOTHING", (day,)
            )
            connection.execute(
                "DELETE FROM store_arrivals WHERE (minute AT TIME ZONE 'UTC')::date = %s", (day,)
            )
