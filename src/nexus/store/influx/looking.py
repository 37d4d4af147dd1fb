"""What is the case, looked at again when it is asked for: by one thread, for all that ask."""

from __future__ import annotations

import threading
import time
from typing import Final

from nexus.lake.errors import StoreError
from nexus.store.errors import StoreAway
from nexus.store.influx.journal import Journal, State
from nexus.store.influx.schema import check, version_of
from nexus.store.influx.talking import Influx

FRESH_S: Final = 0.25  # between two looks at the journal
STALE_S: Final = 2.0  # beyond which a question waits for the look that another has begun
_SURE_S: Final = 5.0  # for which it is still the same store


class Looking:
    """The last state of a store; safe for any number of threads."""

    def __init__(self, influx: Influx) -> None:
        self._influx = influx
        self._turn = threading.Lock()
        self._journal: Journal | None = None
        self._sure_until = self._at = self._failed_at = -1e9
        self._state = State()
        self._failure = ""

    def fresh(self) -> State:
        """A state that is fresh enough; one thread looks, and others need not wait for it."""
        began = time.monotonic()
        age = began - self._at
        if age < FRESH_S or not self._turn.acquire(blocking=age > STALE_S):
            return self._state
        try:
            if self._failed_at > began:
                raise StoreAway(self._failure)  # the look that this one has waited for
            return self._look() if self._at < began - FRESH_S else self._state
        finally:
            self._turn.release()

    def _look(self) -> State:
        at = time.monotonic()
        try:
            if at > self._sure_until:
                self._journal = self._found()
                self._sure_until = at + _SURE_S
            none = State()
            self._state = self._journal.caught_up(self._state) if self._journal else none
        except StoreError as error:
            self._failed_at, self._failure = time.monotonic(), str(error)
            raise StoreAway(str(error)) from error
        self._at = at
        return self._state

    def _found(self) -> Journal | None:
        version, identity = version_of(self._influx)
        check(self._influx.place, version)
        return Journal(self._influx, identity) if version else None
