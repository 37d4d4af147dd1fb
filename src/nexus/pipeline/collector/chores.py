"""Work beside the streams, each in a thread of its own: derived tables, upkeep.

A failure is told and tried again later; only the loss of the store ends the collector.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Final

from nexus.lake.errors import Fenced
from nexus.observe.logs import get_logger
from nexus.pipeline.collector.failures import backoff_s, failure_of
from nexus.pipeline.collector.progress import Progress
from nexus.pipeline.collector.stores import Chore

log = get_logger(__name__)

_AGAIN_S: Final = 0.05


class ChoreThread:
    """Runs one chore until it is told to stop."""

    def __init__(self, chore: Chore, progress: Progress) -> None:
        self.chore = chore
        self.fatal: Fenced | None = None
        self._progress = progress
        self._stop = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=chore.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; `join` waits for that."""
        self._stop.set()

    def join(self, within_s: float) -> None:
        """Until it has ended; what takes longer is cancelled."""
        if self._thread.is_alive():
            self._thread.join(within_s)
        if self._thread.is_alive():
            with suppress(Exception):  # of an application that ends anyway
                self.chore.cancel()
            self._thread.join(within_s)

    def drain(self) -> None:
        """In the caller's thread: again and again until nothing is left to do."""
        while not self._stop.is_set() and self.fatal is None:
            if not self._once(drain=True) or self._failures:
                return

    def _run(self) -> None:
        due = self.chore.first_s
        while not self._stop.wait(due) and self.fatal is None:
            more = self._once(drain=False)
            if self._failures:
                due = max(backoff_s(self._failures), min(self.chore.every_s, 60.0))
            else:
                due = _AGAIN_S if more else self.chore.every_s

    def _once(self, *, drain: bool) -> bool:
        """One run; whether more is left to do."""
        begun = time.monotonic()
        try:
            more, facts = self.chore.run(self._stop.is_set, drain=drain)
        except Fenced as error:
            self.fatal = error
            return False
        except Exception as error:  # noqa: BLE001 - told, and tried again
            if not self._stop.is_set():
                self._failed(failure_of(error).message, time.monotonic() - begun)
            return False
        self._failures = 0
        self._progress.chore(self.chore.name, time.monotonic() - begun, "", facts)
        return more

    def _failed(self, why: str, seconds: float) -> None:
        self._failures += 1
        self._progress.chore(self.chore.name, seconds, why, {})
        log.warning("a job failed; it is tried again", job=self.chore.name, why=why)
