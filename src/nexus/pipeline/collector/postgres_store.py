"""A store in PostgreSQL as the collector has it: its lock, its sink, and its work beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from nexus.pipeline.collector.database_store import DatabaseStore
from nexus.pipeline.collector.stores import Work
from nexus.pipeline.sink.port import Sink
from nexus.pipeline.sink.postgres_sink import PostgresSink
from nexus.settings.collector import CollectorSection
from nexus.store.postgres.connecting import Connection, as_store_errors, connect, is_alive
from nexus.store.postgres.lock import PostgresLock
from nexus.store.postgres.retention import sweep
from nexus.store.postgres.rolling import WIDTHS, Roller
from nexus.store.postgres.url import PostgresUrl

if TYPE_CHECKING:
    from nexus.etcd import Fence

# Windows that were stored are computed again at most so often: late readings come in bursts.
_LATE_EVERY: Final = {"rollup_1m": timedelta(minutes=1), "rollup_1h": timedelta(minutes=10)}


class PostgresStore(DatabaseStore):
    """A store in PostgreSQL, for the life of one collector."""

    def __init__(self, place: PostgresUrl, own: CollectorSection) -> None:
        self.lock = PostgresLock(place, own.name)
        super().__init__(place.name, own, self.lock)

    def sink(self, spark: SparkSession, token: Callable[[], Fence | None] | None = None) -> Sink:
        return PostgresSink(spark, self.lock)

    def _derive(self) -> Work:
        return Derive(self.lock, timedelta(milliseconds=self.own.grace_ms)).run

    def _upkeep(self) -> Work:
        return Upkeep(self).run


class Beside:
    """A connection of its own, for work beside the stream."""

    def __init__(self, lock: PostgresLock) -> None:
        self.lock = lock
        self._connection: Connection | None = None

    def connection(self) -> Connection:
        if self._connection is None or not is_alive(self._connection):
            self._connection = connect(self.lock.place, "collector beside")
        return self._connection


class Derive(Beside):
    """Keeps the rollups up to date."""

    def __init__(self, lock: PostgresLock, grace: timedelta) -> None:
        super().__init__(lock)
        self._rollers = [Roller(name, grace, _LATE_EVERY[name]) for name in WIDTHS]

    def run(self, stopped: Callable[[], bool], *, drain: bool) -> tuple[bool, Mapping[str, object]]:
        """See `Work`."""
        with as_store_errors(self.lock.place):
            _, turn = self.lock.held()
            connection, now = self.connection(), datetime.now(UTC)
            return False, {
                roller.name: roller.step(connection, turn, now, stopped, drain=drain)
                for roller in self._rollers
            }


class Upkeep(Beside):
    """Drops days that are too old."""

    def __init__(self, store: PostgresStore) -> None:
        super().__init__(store.lock)
        self._store = store

    def run(self, stopped: Callable[[], bool], *, drain: bool) -> tuple[bool, Mapping[str, object]]:
        """See `Work`."""
        with as_store_errors(self.lock.place):
            _, turn = self.lock.held()
            retention = self._store.own.retention
            days = sweep(self.connection(), turn, retention, datetime.now(UTC), stopped)
        return False, {"days_removed": sum(days.values())}
