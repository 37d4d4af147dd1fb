"""A store in PostgreSQL that can be asked, from any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nexus.lake.url import StoreUrl
from nexus.store.errors import StoreAway
from nexus.store.postgres.asking import Ways
from nexus.store.postgres.newest import LastReadings
from nexus.store.postgres.pinned import Pins
from nexus.store.postgres.pool import Pool
from nexus.store.postgres.snapshot import PostgresSnapshot
from nexus.store.postgres.texts import Texts
from nexus.store.postgres.url import PostgresUrl
from nexus.store.questions.database import Database

_NO_FILES: Final = StoreUrl("/")  # DuckDB reads tables in memory alone


class PostgresStore:
    """See `Store` in the port."""

    def __init__(
        self, place: PostgresUrl, *, unknown_after_s: float, clock: Callable[[], float]
    ) -> None:
        self._pool = Pool(place)
        self._pins = Pins(place, self._pool)
        self._database = Database(_NO_FILES)
        texts = Texts(self._pins)
        newest = LastReadings(self._pins, texts, self._database)
        self._ways = Ways(self._pins, self._database, texts, newest, clock, unknown_after_s)
        self._closed = False

    def snapshot(self) -> PostgresSnapshot:
        if self._closed:
            raise StoreAway("the store was closed")
        return PostgresSnapshot(self._ways, self._pins.fresh())

    def close(self) -> None:
        self._closed = True
        self._pins.close()
        self._pool.close()
        self._database.close()
