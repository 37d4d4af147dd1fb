"""A stream that is started again after a failure, with growing pauses, as long as that may help."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.errors import PySparkException

from nexus.observe.logs import get_logger
from nexus.pipeline.collector.failures import TRIES, Failure, StreamFailed, backoff_s, failure_of
from nexus.pipeline.collector.progress import Progress
from nexus.pipeline.collector.stream import StoreStream

log = get_logger(__name__)


class Kept:
    """Looks after one stream."""

    def __init__(
        self,
        stream: StoreStream,
        progress: Progress,
        pause_s: Callable[[int], float] = backoff_s,
    ) -> None:
        self.stream = stream
        self._progress = progress
        self._pause_s = pause_s
        self._failures = 0
        self._batches = 0
        self._again_at: float | None = None

    def start(self) -> None:
        """Start the stream; what Spark refuses at once counts as a failure like any other."""
        self._again_at = None
        try:
            self.stream.start()
        except PySparkException as error:
            self._failed(failure_of(error))

    def look(self) -> bool:
        """Whether it has come to its end; a stream that failed is started again when it is time."""
        if self._again_at is not None:
            self._start_again()
            return False
        if self.stream.is_active:
            return False
        failure = self.stream.failure()
        if failure is None:
            return True
        self._failed(failure)
        return False

    def _failed(self, failure: Failure) -> None:
        batches = self._stored()
        self._failures = 1 if batches > self._batches else self._failures + 1
        self._batches = batches
        url = self.stream.plan.url
        if failure.is_final or (self._failures >= TRIES and not failure.is_away):
            raise StreamFailed(failure.message)
        pause = self._pause_s(self._failures)
        self._progress.failing(url, failure.message)
        log.warning("a batch failed; it is tried again", store=url, in_s=pause, why=failure.message)
        self._again_at = time.monotonic() + pause

    def _start_again(self) -> None:
        assert self._again_at is not None
        if time.monotonic() >= self._again_at and not self._progress.view().queue_problem:
            self.start()

    def _stored(self) -> int:
        stores = self._progress.view().stores
        return next(store.batches for store in stores if store.url == self.stream.plan.url)
