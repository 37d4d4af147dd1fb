"""The collector's own conversation with the queue: how much waits there, and how far we have come.

In a thread of its own, apart from Spark, so that lag and the queue's absence are known while a
batch runs, and so that a queue that is slow to take a commit holds up no batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from nexus.observe.logs import get_logger
from nexus.pipeline.collector.claims import spans_of
from nexus.pipeline.collector.progress import Progress
from nexus.queue.errors import QueueAway, QueueError
from nexus.queue.port import Bounds, Reader

log = get_logger(__name__)

LOOK_S: Final = 2.0
WAIT_S: Final = 1.0
_JOIN_S: Final = 10.0


class QueueSide:
    """`start`, then `done` with every committed batch, then `stop`."""

    def __init__(self, reader: Reader, group: str, partitions: str, progress: Progress) -> None:
        self._reader = reader
        self._group = group
        self._spans = spans_of(partitions)
        self._progress = progress
        self._wake = threading.Event()
        self._is_stopping = False
        self._told: Mapping[int, int] = {}
        self._warned = ""
        self._thread = threading.Thread(target=self._run, name="queue-side", daemon=True)

    def hold(
        self,
        stopped: Callable[[], bool],
        standing: Callable[[str], None],
        waiting: Callable[[str], None],
    ) -> bool:
        """At once: who reads offsets takes nothing from others."""
        return not stopped()

    def check(self) -> None:
        """Nothing that the queue says ends a collector."""

    def token(self) -> None:
        """Nobody leads: offsets are read, not taken."""

    def guard(self) -> None:
        """A batch may always be stored: the store knows whose it is."""

    def wait(self, stopped: Callable[[], bool], waiting: Callable[[str], None]) -> bool:
        """Until the queue answers; False when told to stop before it does."""
        while not stopped():
            try:
                self._look()
            except QueueAway as error:
                self._progress.queue(None, str(error))
                waiting(str(error))
                time.sleep(WAIT_S)
            else:
                return True
        return False

    def start(self) -> None:
        self._thread.start()

    def done(self) -> None:
        """There may be something new to commit."""
        self._wake.set()

    def stop(self) -> None:
        """Commit what the last batch came to, and end; safe to call twice."""
        self._is_stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
        if not self._progress.view().queue_problem:
            self._commit()
        self._reader.close()

    def _run(self) -> None:
        look_at = 0.0
        while not self._is_stopping:
            self._wake.wait(0.5)
            self._wake.clear()
            self._commit()
            if time.monotonic() >= look_at and not self._is_stopping:
                self._look_and_tell()
                look_at = time.monotonic() + LOOK_S

    def _look_and_tell(self) -> None:
        try:
            self._look()
        except QueueError as error:
            self._progress.queue(None, str(error))

    def _look(self) -> None:
        found = self._reader.bounds()
        self._progress.queue({p: b for p, b in found.items() if self._is_ours(p)})

    def _is_ours(self, partition: int) -> bool:
        return any(first <= partition <= last for first, last in self._spans)

    def _commit(self) -> None:
        """Tell the group's offsets; what fails is tried again with the next."""
        stored = self._progress.view().stored()
        if not stored or stored == self._told:
            return
        try:
            self._reader.commit(self._group, stored)
        except QueueError as error:
            if str(error) != self._warned:
                log.warning("offsets could not be committed", group=self._group, why=str(error))
            self._warned = str(error)
        else:
            self._told, self._warned = stored, ""


def missing(bounds: Mapping[int, Bounds], partitions: str) -> list[int]:
    """The partitions that were asked for by number and do not exist."""
    if not partitions:
        return []
    return [p for a, b in spans_of(partitions) for p in range(a, b + 1) if p not in bounds]
