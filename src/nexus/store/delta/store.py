"""A store of Delta tables that can be asked, from any number of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from nexus.lake.url import StoreUrl
from nexus.store.delta.asking import DeltaAsking
from nexus.store.delta.folding import Folder
from nexus.store.delta.following import Following, Pins
from nexus.store.delta.live import RECENT, Live
from nexus.store.delta.snapshot import DeltaSnapshot
from nexus.store.errors import StoreAway
from nexus.store.questions.database import Database
from nexus.store.questions.spans import SECOND

FRESH_S: Final = 0.25  # between two looks at the logs
STALE_S: Final = 2.0  # beyond which a question waits for the look that another has begun


class DeltaStore:
    """See `Store` in the port."""

    def __init__(
        self, store: StoreUrl, *, unknown_after_s: float, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._unknown_after_s = unknown_after_s
        self._clock = clock
        self._database = Database(store)
        # Twice the time after which a GPU is unknown: what tells its state is then in memory.
        recent_us = max(RECENT, round(2 * unknown_after_s * SECOND))
        self._live = Live(self._database, recent_us, clock)
        self._following = Following(store)
        self._folder = Folder(store, self._database.folder / "folds")
        self._turn = threading.Lock()
        self._pins = Pins()
        self._closed = False

    def snapshot(self) -> DeltaSnapshot:
        if self._closed:
            raise StoreAway("the store was closed")
        return DeltaSnapshot(self._store, self._asking(self._looked()), self._renewed)

    def close(self) -> None:
        self._closed = True
        self._folder.close()
        self._database.close()

    def folded(self, timeout_s: float) -> bool:
        """Wait until the small files of the last look are folded; whether they are."""
        return self._folder.settle(timeout_s)

    def _looked(self) -> Pins:
        """Pins that are fresh enough; one thread looks, and others need not wait for it."""
        age = time.monotonic() - self._pins.at
        if age < FRESH_S:
            return self._pins
        if not self._turn.acquire(blocking=age > STALE_S):
            return self._pins
        try:
            if time.monotonic() - self._pins.at >= FRESH_S:
                self._pins = self._following.look()
                self._folder.show(self._pins.tables.get("readings"))
            return self._pins
        finally:
            self._turn.release()

    def _renewed(self) -> DeltaAsking:
        """The newest versions, looked at anew: files of the last ones are gone."""
        with self._turn:
            self._following.forget()
            self._pins = self._following.look()
        return self._asking(self._pins)

    def _asking(self, pins: Pins) -> DeltaAsking:
        return DeltaAsking(
            pins,
            self._database,
            self._live,
            self._folder.folds,
            self._removed,
            self._clock,
            self._unknown_after_s,
        )

    def _removed(self, day: str) -> bool:
        with self._turn:
            return self._following.removed(day)
