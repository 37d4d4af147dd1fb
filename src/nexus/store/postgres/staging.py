"""Where the tasks of a batch put rows, and the commit that takes them up.

Staging tables are not logged and belong to one turn of a writer: what a task of an earlier turn
still puts there, nobody takes up. Rows are marked with the part of the task that wrote them; only
parts that a task has reported count, and only if all their rows are still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import psycopg

from nexus.lake.errors import BatchesLost, StoreOut
from nexus.store.postgres.connecting import Connection
from nexus.store.postgres.layout import IDS, READING_NUMBERS, partition_name, stored_name
from nexus.store.postgres.lock import Turn, hold_turn
from nexus.telemetry.tables import TABLES

STAGED: Final = ("readings", "latest", "quarantine")
_NAMES: Final = ", ".join(f'"{name}"' for name in (*READING_NUMBERS, *IDS))
_REFUSED: Final = ", ".join(
    f'"{name}"' for name in TABLES["quarantine"].schema.names if name != "day"
)
_STAGED: Final = ", ".join(f's."{name}"' for name in (*READING_NUMBERS, *IDS))
_QUARANTINE: Final = f"""
WITH new AS (
  INSERT INTO quarantine ({_REFUSED}) SELECT {_REFUSED} FROM {{quarantine}}
  WHERE part = ANY(%(parts)s) RETURNING refused
)
SELECT 'quarantine', date_trunc('hour', refused), count(*), min(refused), max(refused), max(refused)
FROM new GROUP BY 2"""
# What came by the minute: derived tables and retention go by it.
_MINUTE: Final = "date_bin('1 minute', {of}\"timestamp\", 'epoch')"
_MINUTES: Final = (
    'count(*), min({of}"timestamp"), max({of}"timestamp"), max({of}ingested) FROM {rows}'
    " GROUP BY 1 ORDER BY 1"
)
_BY_MINUTE: Final = f"SELECT {_MINUTE}, {_MINUTES}"
_OF_BATCH: Final = (
    "{readings} s LEFT JOIN latest_stored l USING (series_id) WHERE s.part = ANY(%(parts)s)"
)
_INSERT: Final = f"INSERT INTO {{into}} ({_NAMES}) SELECT {_STAGED} FROM {_OF_BATCH} AND {{which}}"
# A reading that is newer than its series cannot be there yet, and need not be looked up.
_NEWER: Final = '(l.series_id IS NULL OR s."timestamp" > l."timestamp")'
_LATE: Final = 's."timestamp" <= l."timestamp" ON CONFLICT DO NOTHING'
_TAKEN: Final = ", ".join(
    f'"{name}" = CASE WHEN excluded."timestamp" > l."timestamp" THEN excluded."{name}"'
    f' ELSE l."{name}" END'
    for name in (*READING_NUMBERS, "context_id")
)
_LATEST: Final = f"""
INSERT INTO latest_stored AS l ({_NAMES}, first, version)
SELECT {_NAMES}, first, %(version)s FROM {{latest}} WHERE part = ANY(%(parts)s)
ON CONFLICT (series_id) DO UPDATE SET {_TAKEN}, first = least(l.first, excluded.first),
  version = excluded.version
WHERE excluded."timestamp" > l."timestamp" OR excluded.first < l.first"""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the tasks of a batch have staged."""

    parts: Sequence[int] = ()
    readings: int = 0
    latest: int = 0
    refused: int = 0
    days: frozenset[str] = frozenset()  # of readings
    refused_days: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Merged:
    """What a commit came to."""

    readings: int
    version: int


@dataclass(frozen=True, slots=True)
class Minute:
    """Readings of one minute that are new."""

    start: datetime
    rows: int
    low: datetime
    high: datetime
    ingested: datetime


def staging_name(table: str, epoch: int) -> str:
    """The table that tasks of a turn put rows into."""
    return f"staged_{table}_{epoch}"


def make_staging(connection: Connection, turn: Turn) -> None:
    """Make the staging tables of a turn; those of earlier ones go."""
    with connection.transaction():
        hold_turn(connection, turn)
        own = {staging_name(name, turn.epoch) for name in STAGED}
        for name in staging_tables(connection):
            if name not in own:
                connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        for name in STAGED:
            like = stored_name(name)
            connection.execute(
                f"CREATE UNLOGGED TABLE IF NOT EXISTS {staging_name(name, turn.epoch)}"
                f" (part bigint NOT NULL, LIKE {like} INCLUDING DEFAULTS)"
            )


def staging_tables(connection: Connection) -> list[str]:
    """The staging tables that there are, of whichever turn."""
    found = connection.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'staged\\_%'"
        " AND relnamespace = current_schema()::regnamespace ORDER BY 1"
    ).fetchall()
    return [name for (name,) in found]


def last_batch(connection: Connection, app: str) -> int:
    """The number of the last batch of a stream that is stored; -1 if none is."""
    row = connection.execute("SELECT number FROM store_batches WHERE app = %s", (app,)).fetchone()
    return -1 if row is None else int(row[0])


def merge(connection: Connection, turn: Turn, app: str, number: int, staged: Parts) -> Merged:
    """Take up what was staged, in one transaction with the batch's number."""
    for name, days in (("readings", staged.days), ("quarantine", staged.refused_days)):
        make_partitions(connection, name, days)
    with connection.transaction(), connection.cursor() as cursor:
        hold_turn(connection, turn)
        if last_batch(connection, app) != number - 1:
            raise BatchesLost(f"somebody else stored batches of {app} here")
        minutes = _taken_up(cursor, turn, staged, _check_all_there(cursor, turn, staged))
        version = _counted(cursor, minutes, staged)
        if staged.latest:
            params = {"parts": list(staged.parts), "version": version}
            cursor.execute(_LATEST.format(latest=staging_name("latest", turn.epoch)), params)
        cursor.execute(
            "INSERT INTO store_batches VALUES (%s, %s, now()) ON CONFLICT (app) DO UPDATE"
            " SET number = excluded.number, at = excluded.at",
            (app, number),
        )
        names = ", ".join(staging_name(name, turn.epoch) for name in STAGED)
        cursor.execute(f"TRUNCATE {names}")
    return Merged(sum(minute.rows for minute in minutes), version)


def make_partitions(connection: Connection, table: str, days: Iterable[str]) -> None:
    """A part for each of these days that has none."""
    for day in sorted(days):
        name = partition_name(table, day)
        found = connection.execute("SELECT to_regclass(%s)", (name,)).fetchone()
        if found is not None and found[0] is not None:
            continue
        end = datetime.fromisoformat(day).date() + timedelta(days=1)
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF {stored_name(table)}"
            f" FOR VALUES FROM ('{day} 00:00:00+00') TO ('{end} 00:00:00+00')"
        )


def _check_all_there(cursor: psycopg.Cursor[Any], turn: Turn, staged: Parts) -> list[Minute]:
    """A database that crashed has emptied what is not logged: the batch is staged again then.

    What is counted on the way are the minutes of all readings that were staged.
    """
    params = {"parts": list(staged.parts)}
    table = staging_name("readings", turn.epoch)
    rows = f"{table} WHERE part = ANY(%(parts)s)"
    found = cursor.execute(_BY_MINUTE.format(of="", rows=rows), params).fetchall()
    minutes = [Minute(*row) for row in found]
    _check_count(table, sum(minute.rows for minute in minutes), staged.readings)
    for name, wanted in (("latest", staged.latest), ("quarantine", staged.refused)):
        table = staging_name(name, turn.epoch)
        query = f"SELECT count(*) FROM {table} WHERE part = ANY(%(parts)s)"
        row = cursor.execute(query, params).fetchone()
        _check_count(table, row[0] if row else 0, wanted)
    return minutes


def _check_count(table: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise StoreOut(f"{found} of {wanted} rows are left in {table}")


def _taken_up(
    cursor: psycopg.Cursor[Any], turn: Turn, staged: Parts, minutes: list[Minute]
) -> list[Minute]:
    """Of what was staged (by the minute), what is new."""
    params = {"parts": list(staged.parts)}
    if staged.refused:
        cursor.execute(
            _QUARANTINE.format(quarantine=staging_name("quarantine", turn.epoch)), params
        )
        add_held(cursor, cursor.fetchall())
    if not staged.readings:
        return []
    table = staging_name("readings", turn.epoch)
    # To look for each row's part again takes longer than to write the row.
    days = sorted(staged.days)
    into = partition_name("readings", days[0]) if len(days) == 1 else stored_name("readings")
    cursor.execute(_INSERT.format(into=into, readings=table, which=_NEWER), params)
    if cursor.rowcount == staged.readings:
        return minutes
    newer = f"{_OF_BATCH.format(readings=table)} AND {_NEWER}"
    found = cursor.execute(_BY_MINUTE.format(of="s.", rows=newer), params).fetchall()
    late = _INSERT.format(into=into, readings=table, which=_LATE)
    cursor.execute(
        f'WITH new AS ({late} RETURNING "timestamp", ingested) {_BY_MINUTE}'.format(
            of="", rows="new"
        ),
        params,
    )
    return [Minute(*row) for row in (*found, *cursor.fetchall())]


def _counted(cursor: psycopg.Cursor[Any], minutes: Sequence[Minute], staged: Parts) -> int:
    """Note what came where; the version of `readings` that this makes."""
    add_held(cursor, [("readings", *minute) for minute in by_hour(minutes)])
    changed = ["readings", "latest", "gpus"] if minutes else ["readings"]
    cursor.execute(
        "UPDATE store_tables SET version = version + 1, changed = now() WHERE name = ANY(%s)",
        ([*changed, *(["quarantine"] if staged.refused else [])],),
    )
    row = cursor.execute("SELECT version FROM store_tables WHERE name = 'readings'").fetchone()
    assert row is not None
    version = int(row[0])
    cursor.executemany(
        "INSERT INTO store_arrivals VALUES (%s, %s)",
        [(start, version) for start in {minute.start for minute in minutes}],
    )
    return version


def add_held(cursor: psycopg.Cursor[Any], held: Iterable[Sequence[object]]) -> None:
    """Note how many rows a table has got in an hour, and between which times."""
    cursor.executemany(
        "INSERT INTO store_held AS h VALUES (%s, %s, %s, %s, %s, %s)"
        " ON CONFLICT (name, start) DO UPDATE SET rows = h.rows + excluded.rows,"
        " low = least(h.low, excluded.low), high = greatest(h.high, excluded.high),"
        " ingested = greatest(h.ingested, excluded.ingested)",
        held,
    )


def by_hour(minutes: Iterable[Minute]) -> list[tuple[datetime, int, datetime, datetime, datetime]]:
    """Minutes of one hour put together."""
    found: dict[datetime, tuple[datetime, int, datetime, datetime, datetime]] = {}
    for minute in minutes:
        hour = minute.start.replace(minute=0)
        _, rows, low, high, ingested = found.get(
            hour, (hour, 0, minute.low, minute.high, minute.ingested)
        )
        found[hour] = (
            hour,
            rows + minute.rows,
            min(low, minute.low),
            max(high, minute.high),
            max(ingested, minute.ingested),
        )
    return list(found.values())
