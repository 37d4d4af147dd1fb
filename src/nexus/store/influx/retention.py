"""What is older than it may be goes, a day at a time.

A day goes only when its end and whatever was ingested for it last are older: a day that is loaded
again after years stays as long as a new one. InfluxDB's policies go by a point's time alone, so
they keep for ever, and days are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from nexus.store.influx.journal import Entry, State, day_of
from nexus.store.influx.lock import InfluxLock
from nexus.store.influx.reading import during
from nexus.store.questions.rolled import day_stretch


def sweep(
    lock: InfluxLock,
    retention: Mapping[str, timedelta],
    now: int,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, int]:
    """Delete the days of each table that are too old; how many of each went."""
    removed = dict.fromkeys(retention, 0)
    for name, kept in retention.items():
        state, _ = lock.held()
        for day in _days(state, name, now - kept // timedelta(microseconds=1)):
            if stopped():
                break
            lock.influx.tell(f'DELETE FROM "{name}" WHERE {during(day_stretch(day))}')
            lock.commit(Entry(now, removed={name: [day]}))
            removed[name] += 1
    return removed


def _days(state: State, name: str, before: int) -> list[str]:
    ingested: dict[str, int] = {}
    for start, came in state.held.get(name, {}).items():
        day = day_of(start)
        ingested[day] = max(came.ingested, ingested.get(day, came.ingested))
    return sorted(
        day for day, last in ingested.items() if last < before and day_stretch(day).high <= before
    )
