"""A store in InfluxDB as the collector has it: its turn, its sink, and its work beside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from nexus.lake.url import StoreUrl
from nexus.pipeline.collector.database_store import DatabaseStore
from nexus.pipeline.collector.stores import Work
from nexus.pipeline.sink.influx_sink import InfluxSink
from nexus.pipeline.sink.port import Sink
from nexus.settings.collector import CollectorSection
from nexus.store.influx.journal import Entry
from nexus.store.influx.lock import InfluxLock
from nexus.store.influx.newest import LatestTable
from nexus.store.influx.reading import Reader
from nexus.store.influx.retention import sweep
from nexus.store.influx.rolling import Roller
from nexus.store.influx.texts import Texts
from nexus.store.influx.url import InfluxUrl
from nexus.store.questions.database import Database
from nexus.store.questions.rolled import WIDTHS

if TYPE_CHECKING:
    from nexus.etcd import Fence

# Windows that were stored are computed again at most so often: late readings come in bursts.
_LATE_EVERY_US: Final = {"rollup_1m": 60_000_000, "rollup_1h": 600_000_000}
# What is last is read from readings anyway: its table only saves who asks first some of that.
_LATEST_EVERY: Final = timedelta(minutes=1)
_NO_FILES: Final = StoreUrl("/")


class InfluxStore(DatabaseStore):
    """A store in InfluxDB, for the life of one collector."""

    def __init__(self, place: InfluxUrl, own: CollectorSection) -> None:
        self.lock = InfluxLock(place, own.name)
        super().__init__(place.name, own, self.lock)
        self._deriving: Derive | None = None

    def sink(self, spark: SparkSession, token: Callable[[], Fence | None] | None = None) -> Sink:
        return InfluxSink(spark, self.lock)

    def release(self) -> None:
        if self._deriving is not None:
            self._deriving.close()
        super().release()

    def _derive(self) -> Work:
        self._deriving = Derive(self.lock, self.own.grace_ms * 1000)
        return self._deriving.run

    def _upkeep(self) -> Work:
        return self._sweep

    def _sweep(
        self, stopped: Callable[[], bool], *, drain: bool
    ) -> tuple[bool, Mapping[str, object]]:
        """See `Work`."""
        days = sweep(self.lock, self.own.retention, _now_us(), stopped)
        return False, {"days_removed": sum(days.values())}


class Derive:
    """Keeps the rollups and what is known last up to date."""

    def __init__(self, lock: InfluxLock, grace_us: int) -> None:
        self._lock = lock
        self._grace_us = grace_us
        self._database = Database(_NO_FILES)
        reader = Reader(lock.influx, Texts(lock.influx))
        self._rollers = [Roller(name, reader, self._database) for name in WIDTHS]
        self._latest = LatestTable(reader, self._database)
        self._latest_at = -(2**62)

    def run(self, stopped: Callable[[], bool], *, drain: bool) -> tuple[bool, Mapping[str, object]]:
        """See `Work`."""
        now = _now_us()
        said = {
            roller.name: roller.step(
                self._lock, now, self._grace_us, _LATE_EVERY_US[roller.name], stopped, drain=drain
            )
            for roller in self._rollers
        }
        if drain or now - self._latest_at >= _LATEST_EVERY // timedelta(microseconds=1):
            state, _ = self._lock.held()
            version = self._latest.step(state)
            if version is not None:
                self._lock.commit(Entry(now, latest=version))
            self._latest_at = now
        return False, said

    def close(self) -> None:
        self._database.close()


def _now_us() -> int:
    return time.time_ns() // 1000
