"""One streaming query: from the queue, checked, into one store, batch after batch.

It ends between two batches, never in one: a batch that runs is let finish, and one that Spark
plans meanwhile is refused before it stores anything, so that the next start makes it again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from nexus.errors import NexusError
from nexus.lake.files import sync
from nexus.observe.logs import get_logger
from nexus.pipeline.collector.conf import STREAM_POOL
from nexus.pipeline.collector.failures import Failure, failure_of
from nexus.pipeline.collector.listener import Report, report_of
from nexus.pipeline.collector.progress import Progress
from nexus.pipeline.errors import PipelineError
from nexus.pipeline.sink.port import Batch, Sink
from nexus.pipeline.source import NAME, register
from nexus.pipeline.validate import validate

log = get_logger(__name__)

_POLL_S: Final = 0.05
_COMMIT_S: Final = 30.0


class _Stopping(PipelineError):
    """Raised to Spark instead of storing a batch that it planned while the stream was stopping."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What a stream reads, where it keeps its place, and when it looks for more."""

    url: str  # of the store
    source: Mapping[str, str]
    origin: str
    checkpoint: Path
    trigger_ms: int
    available_now: bool


class StoreStream:
    """The query of one store; a new `start` goes on where the last one came to."""

    def __init__(
        self,
        spark: SparkSession,
        plan: StreamPlan,
        sink: Sink,
        progress: Progress,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        """`guard` raises when a batch must not be stored: asked before, and before the commit."""
        self.plan = plan
        self._guard = guard
        self._spark = spark
        self._sink = sink
        self._progress = progress
        self._gate = threading.Lock()
        self._is_stopping = False
        self._query: StreamingQuery | None = None
        self._app: Future[str] = Future()
        self._error: BaseException | None = None
        self._number = -1
        self.source_name = f"{NAME}-{uuid4().hex}"
        register(spark, self.source_name)

    def start(self) -> None:
        """Start or, after a failure, start again."""
        self._error = None
        self._app = Future()
        rows = self._spark.readStream.format(self.source_name).options(**self.plan.source).load()
        writer = validate(rows).writeStream.foreachBatch(self._store).queryName(self.plan.url)
        writer = writer.option("checkpointLocation", self.plan.checkpoint.absolute().as_uri())
        if self.plan.available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self.plan.trigger_ms} milliseconds")
        self._query = writer.start()
        # Batch numbers begin anew with a new checkpoint: the query's id makes them unique.
        self._app.set_result(f"collector:{self._query.id}")

    @property
    def is_active(self) -> bool:
        return self._query is not None and self._query.isActive

    def failure(self) -> Failure | None:
        """Why the query ended; None if it has come to its end, or goes on."""
        if self._error is not None:
            found = failure_of(self._error)
            is_told = isinstance(self._error, NexusError) or found.is_away
            return found if is_told else replace(found, message=f"{self.plan.url}: {found.message}")
        error = self._query.exception() if self._query is not None else None
        return None if error is None else failure_of(error)

    def finish(self, cut: Callable[[], bool]) -> None:
        """End after the batch that runs, if one does; `cut` says when not to wait for it."""
        self._is_stopping = True
        query = self._query
        if query is None:
            return
        while not self._gate.acquire(timeout=_POLL_S):
            if cut():
                break
        else:
            self._gate.release()
            self._wait_committed(query, cut)
        with suppress(PySparkException, Py4JError):  # it may end by itself meanwhile
            query.stop()
            self.report_last()

    def report_last(self) -> None:
        """What the last batch came to: its report may still be on its way."""
        said = _facts(self._query) if self._query is not None else None
        if said is not None:
            self.reported(report_of(said))

    def reported(self, report: Report) -> None:
        if report.place or report.ends:
            self._progress.reached(
                self.plan.url, report.number, report.ends, report.phases_s, report.place
            )

    def _wait_committed(self, query: StreamingQuery, cut: Callable[[], bool]) -> None:
        """Spark notes the end of a batch just after it is stored."""
        deadline = time.monotonic() + _COMMIT_S
        while query.isActive and not cut() and time.monotonic() < deadline:
            said = _facts(query)
            if self._number < 0 or (said is not None and said["batchId"] >= self._number):
                return
            time.sleep(_POLL_S)

    def _store(self, rows: DataFrame, number: int) -> None:
        """Spark's call for each batch; in a thread of its own."""
        with self._gate:
            if self._is_stopping:
                raise _Stopping("the collector is stopping")
            begun = time.monotonic()
            try:
                self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", STREAM_POOL)
                app = self._app.result(_COMMIT_S)
                keep_plan(self.plan.checkpoint, number)
                self._guard()
                stored = self._sink.store(Batch(rows, app, number, self.plan.origin, self._guard))
            except BaseException as error:
                self._error = error
                raise
            self._number = number
        self._progress.stored(self.plan.url, number, stored, time.monotonic() - begun)
        log.debug("stored", batch=number, readings=stored.readings, store=self.plan.url)


def keep_plan(checkpoint: Path, number: int) -> None:
    """See that what Spark planned for a batch is on the disk before the batch is stored.

    Otherwise a power cut could leave the store with the batch and Spark without its plan. It
    would make another one of that number, with more in it, and the store would know the number.
    """
    offsets = checkpoint / "offsets"
    written = (checkpoint / "metadata", offsets / str(number))
    beside = [path.with_name(f".{path.name}.crc") for path in written]
    for path in (*written, *(path for path in beside if path.exists())):
        sync(path)
    for folder in (offsets, checkpoint, checkpoint.parent):
        sync(folder)


def last_committed(checkpoint: Path) -> tuple[int, Mapping[str, Any]] | None:
    """The last batch that Spark noted the end of, and its end in the source's words."""
    numbers = [int(path.name) for path in checkpoint.glob("commits/*") if path.name.isdecimal()]
    if not numbers:
        return None
    try:
        lines = (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()
        place: Mapping[str, Any] = json.loads(lines[2])
    except (OSError, ValueError, IndexError):
        return None
    return max(numbers), place


def _facts(query: StreamingQuery) -> Mapping[str, Any] | None:
    """The query's last report of itself, as Spark writes it; None before the first."""
    said = query.lastProgress
    facts: Mapping[str, Any] | None = None if said is None else json.loads(said.json)
    return facts
