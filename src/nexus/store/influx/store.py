"""A store in InfluxDB that can be asked, from any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nexus.lake.url import StoreUrl
from nexus.store.errors import StoreAway
from nexus.store.influx.asking import Ways
from nexus.store.influx.looking import Looking
from nexus.store.influx.newest import LastReadings
from nexus.store.influx.reading import Reader
from nexus.store.influx.snapshot import InfluxSnapshot
from nexus.store.influx.talking import Influx
from nexus.store.influx.texts import Texts
from nexus.store.influx.url import InfluxUrl
from nexus.store.questions.database import SECONDS_MAX, Database

_NO_FILES: Final = StoreUrl("/")  # DuckDB reads tables in memory alone


class InfluxStore:
    """See `Store` in the port."""

    def __init__(
        self, place: InfluxUrl, *, unknown_after_s: float, clock: Callable[[], float]
    ) -> None:
        self._influx = Influx(place, timeout_s=SECONDS_MAX)
        self._looking = Looking(self._influx)
        self._database = Database(_NO_FILES)
        reader = Reader(self._influx, Texts(self._influx))
        newest = LastReadings(reader, self._database)
        self._ways = Ways(reader, self._database, newest, clock, unknown_after_s)
        self._closed = False

    def snapshot(self) -> InfluxSnapshot:
        if self._closed:
            raise StoreAway("the store was closed")
        return InfluxSnapshot(self._ways, self._looking.fresh())

    def close(self) -> None:
        self._closed = True
        self._influx.close()
        self._database.close()
