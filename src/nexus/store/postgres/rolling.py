"""Rollups follow readings inside the database: what is due is computed where the readings are.

Two numbers say how far a rollup is: `closed`, before which all its windows are stored, and the
version of `readings` up to which these are right. A window that readings came to since is computed
again from all its readings, so everything is exact: percentiles are nearest ranks, each a value
that was read. Work that was cut short is done again with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final

from nexus.store.postgres.connecting import Connection
from nexus.store.postgres.lock import Turn, hold_turn
from nexus.store.postgres.staging import add_held, make_partitions

WIDTHS: Final = {"rollup_1m": timedelta(minutes=1), "rollup_1h": timedelta(hours=1)}
PIECE: Final = timedelta(hours=1)  # windows that are computed in one transaction
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BIG: Final = "1e290"  # PostgreSQL refuses a sum that is more than a number can be
_SHARE: Final = "18446744073709551616"  # a power of two: nothing is rounded by it
_MOST: Final = "9.745314011399998e288"  # of a number, divided by it


def _rank(percent: int) -> str:
    """The least value that so many percent of the values do not exceed."""
    return f"sorted[(count * {percent} + 99) / 100] AS p{percent}"


_MEAN: Final = (
    f"CASE WHEN count > 0 THEN coalesce(small, 0) / count + CASE WHEN big IS NULL THEN 0"
    f" ELSE greatest(-{_MOST}::float8, least({_MOST}::float8, big / count)) * {_SHARE}::float8"
    " END END AS mean"
)
# What the last reading says is looked up: that is cheaper than to sort readings by their time.
_WINDOWS: Final = f"""
INSERT INTO {{name}}_stored (start, count, missing, min, max, mean, last, last_timestamp,
  p50, p95, p99, gpu_id, series_id, context_id)
SELECT w.start, count, missing, sorted[1], sorted[count], {_MEAN}, told.value, last_timestamp,
  {_rank(50)}, {_rank(95)}, {_rank(99)}, w.gpu_id, w.series_id, newest.context_id
FROM (
  SELECT gpu_id, series_id, date_bin(%(width)s, "timestamp", 'epoch'::timestamptz) AS start,
    count(value) AS count, count(*) - count(value) AS missing,
    sum(value) FILTER (WHERE abs(value) < {_BIG}) AS small,
    sum(value / {_SHARE}::float8) FILTER (WHERE abs(value) >= {_BIG}) AS big,
    array_agg(value ORDER BY value) FILTER (WHERE value IS NOT NULL) AS sorted,
    max("timestamp") AS newest,
    max("timestamp") FILTER (WHERE value IS NOT NULL) AS last_timestamp
  FROM readings_stored WHERE "timestamp" >= %(low)s AND "timestamp" < %(high)s
  GROUP BY 1, 2, 3
) w
JOIN readings_stored newest ON newest.gpu_id = w.gpu_id AND newest.series_id = w.series_id
  AND newest."timestamp" = w.newest
  AND newest."timestamp" >= %(low)s AND newest."timestamp" < %(high)s
LEFT JOIN readings_stored told ON told.gpu_id = w.gpu_id AND told.series_id = w.series_id
  AND told."timestamp" = w.last_timestamp
  AND told."timestamp" >= %(low)s AND told."timestamp" < %(high)s
WHERE w.start = ANY(%(windows)s)"""


# Less the days of which readings were removed: what is rolled up is all there is of them.
_LATE: Final = (
    "minute < %s AND version > %s AND NOT EXISTS (SELECT FROM store_removed"
    " WHERE day = (minute AT TIME ZONE 'UTC')::date)"
)


@dataclass(frozen=True, slots=True)
class Rolled:
    """How far a rollup is."""

    closed: datetime = _EPOCH
    version: int = 0


class Roller:
    """Keeps one rollup up to date."""

    def __init__(self, name: str, grace: timedelta, late_every: timedelta) -> None:
        self.name = name
        self._width = WIDTHS[name]
        self._grace = grace
        self._late_every = late_every
        self._late_at = _EPOCH

    def step(
        self,
        connection: Connection,
        turn: Turn,
        now: datetime,
        stopped: Callable[[], bool] = lambda: False,
        *,
        drain: bool = False,
    ) -> Mapping[str, object]:
        """Compute what is due; how far it is then."""
        before = self._state(connection)
        version, end = _readings(connection)
        closed = max(before.closed, self._next_closed(now, end))
        is_late_due = drain or now - self._late_at >= self._late_every
        # What came to windows that are stored comes in bursts, and waits for its turn.
        waits = not is_late_due and self._has_late(connection, before)
        upto = before.version if waits else version
        due = self._due(connection, before, closed, upto)
        for _, windows in groupby(due, lambda start: start.replace(minute=0)):
            if stopped():
                return self._said(before)
            self._compute(connection, turn, list(windows))
        if not waits:
            self._late_at = now
        after = Rolled(closed, upto)
        if after != before:
            self._tell(connection, turn, after)
        return self._said(after)

    def _next_closed(self, now: datetime, end: datetime | None) -> datetime:
        """A window closes when it is over for a while, and not before there are readings."""
        if end is None:
            return _EPOCH
        over, reached = self._floor(now - self._grace), self._floor(end) + self._width
        return min(over, reached)

    def _due(
        self, connection: Connection, before: Rolled, closed: datetime, version: int
    ) -> list[datetime]:
        """Windows that close now, and closed ones that readings came to since."""
        rows = connection.execute(
            "SELECT DISTINCT date_bin(%s, minute, 'epoch'::timestamptz) FROM store_arrivals"
            f" WHERE (minute >= %s AND minute < %s) OR ({_LATE} AND version <= %s) ORDER BY 1",
            (self._width, before.closed, closed, before.closed, before.version, version),
        ).fetchall()
        return [start for (start,) in rows]

    def _has_late(self, connection: Connection, before: Rolled) -> bool:
        found = connection.execute(
            f"SELECT FROM store_arrivals WHERE {_LATE} LIMIT 1", (before.closed, before.version)
        ).fetchone()
        return found is not None

    def _compute(self, connection: Connection, turn: Turn, windows: Sequence[datetime]) -> None:
        make_partitions(connection, self.name, {start.date().isoformat() for start in windows})
        params = {
            "width": self._width,
            "low": windows[0],
            "high": windows[-1] + self._width,
            "windows": windows,
        }
        with connection.transaction(), connection.cursor() as cursor:
            hold_turn(connection, turn)
            cursor.execute(
                f"DELETE FROM {self.name}_stored WHERE start >= %(low)s AND start < %(high)s"
                " AND start = ANY(%(windows)s)",
                params,
            )
            gone = cursor.rowcount
            cursor.execute(_WINDOWS.format(name=self.name), params)
            low, high = windows[0], windows[-1]
            hour = low.replace(minute=0)
            made = cursor.rowcount - gone
            add_held(cursor, [(self.name, hour, made, low, high, datetime.now(UTC))])

    def _tell(self, connection: Connection, turn: Turn, state: Rolled) -> None:
        """Say how far it is; what every rollup stands for need not be remembered any more."""
        with connection.transaction():
            hold_turn(connection, turn)
            connection.execute(
                "INSERT INTO store_rollups VALUES (%s, %s, %s) ON CONFLICT (name) DO UPDATE"
                " SET closed = excluded.closed, version = excluded.version",
                (self.name, state.closed, state.version),
            )
            connection.execute(
                "UPDATE store_tables SET version = version + 1, changed = now() WHERE name = %s",
                (self.name,),
            )
            connection.execute(
                "DELETE FROM store_arrivals WHERE (SELECT count(*) FROM store_rollups) = %s"
                " AND minute < (SELECT min(closed) FROM store_rollups)"
                " AND version <= (SELECT min(version) FROM store_rollups)",
                (len(WIDTHS),),
            )

    def _state(self, connection: Connection) -> Rolled:
        row = connection.execute(
            "SELECT closed, version FROM store_rollups WHERE name = %s", (self.name,)
        ).fetchone()
        return Rolled() if row is None else Rolled(*row)

    def _said(self, state: Rolled) -> Mapping[str, object]:
        return {"closed": state.closed.isoformat(), "version": state.version}

    def _floor(self, moment: datetime) -> datetime:
        return moment - (moment - _EPOCH) % self._width


def _readings(connection: Connection) -> tuple[int, datetime | None]:
    """The version of `readings`, and the time of the newest."""
    row = connection.execute(
        "SELECT version, (SELECT max(high) FROM store_held WHERE name = 'readings')"
        " FROM store_tables WHERE name = 'readings'"
    ).fetchone()
    assert row is not None
    return int(row[0]), row[1]
