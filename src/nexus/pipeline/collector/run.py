"""One collector: holds its stores, starts Spark, carries batches until told to stop, ends clean.

`run` works in whatever thread calls it and returns when all is ended; `stop` may come from any
other, twice to end at once. What keeps it from going on is raised as an error that says what to do.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nexus.lake.errors import Fenced
from nexus.observe.logs import get_logger
from nexus.pipeline.collector.chores import ChoreThread
from nexus.pipeline.collector.claims import Claim, Claims
from nexus.pipeline.collector.conf import Places
from nexus.pipeline.collector.kept import Kept
from nexus.pipeline.collector.listener import Report, Reports
from nexus.pipeline.collector.naming import folder_of, queue_name, stream_plan
from nexus.pipeline.collector.progress import Phase, Progress
from nexus.pipeline.collector.queue_side import missing
from nexus.pipeline.collector.session import SparkRun
from nexus.pipeline.collector.sides import open_side
from nexus.pipeline.collector.stores import Store, open_store
from nexus.pipeline.collector.stream import StoreStream, StreamPlan, last_committed
from nexus.pipeline.collector.warm_up import start_warm_up
from nexus.pipeline.errors import PipelineError
from nexus.queue.url import EtcdUrl, parse_queue_url
from nexus.settings.collector import CollectorSection

log = get_logger(__name__)

_TICK_S: Final = 0.1
_STANDBY_S: Final = 0.5
_CHORE_END_S: Final = 5.0
_SETTLED_S: Final = 45.0


class _Told(Exception):
    """Raised inside to leave a wait when the collector was told to stop."""


class Collector:
    """From one queue to one or more stores, until `stop`."""

    def __init__(self, own: CollectorSection, clock: Callable[[], float] = time.monotonic) -> None:
        self.own = own
        self.queue = parse_queue_url(own.queue)
        self.stores: list[Store] = [open_store(url, own) for url in own.stores]
        self.progress = Progress(tuple(store.url for store in self.stores), clock)
        name = queue_name(self.queue)
        self.folder = own.data_dir / folder_of(name, self.stores[0].url, own.partitions)
        self.spark_run = SparkRun(own, Places(self.folder))
        self.ready = threading.Event()
        self._stop = threading.Event()
        self._cut = threading.Event()
        self._claims = Claims(own.data_dir, str(self.queue), own.group)
        self._queue_side = open_side(own, self.queue, self.progress)
        self._streams: list[Kept] = []
        self._chores: list[ChoreThread] = []

    def run(self) -> None:
        """Until told to stop, or with `available_now` until everything is stored."""
        try:
            self._hold_queue()
            self._hold_stores()
            self._start()
            self._carry()
        except _Told:
            return
        except Exception as error:
            if self._stop.is_set():
                return  # of what was cut off
            if isinstance(error, Py4JError | PySparkException | OSError):
                raise self.spark_run.explain(error) from error
            raise
        finally:
            self._end()

    def stop(self) -> None:
        """End after the running batch; a second call ends at once."""
        if self._stop.is_set():
            self._cut.set()
            self.spark_run.kill()
        self._stop.set()
        if self.progress.enter(Phase.STOPPING, self._batch_note()) and not self._streams:
            self.spark_run.kill()  # nothing was begun that would have to be finished

    def take_up(self, changed: CollectorSection) -> None:
        """Settings that changed while it runs: how long tables are kept."""
        for store in self.stores:
            store.take_up(changed)

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def _batch_note(self) -> str:
        return "after the running batch" if self.ready.is_set() else ""

    def _hold_queue(self) -> None:
        """Before the stores, so that none is held by one that may not collect."""

        def standing(why: str) -> None:
            self._enter(Phase.STANDBY, why)

        def waiting(why: str) -> None:
            self._enter(Phase.WAITING, why)

        if not self._queue_side.hold(self._stop.is_set, standing, waiting):
            raise _Told

    def _hold_stores(self) -> None:
        for store in self.stores:
            store.acquire(lambda who, store=store: self._stand_by(store, who))  # type: ignore[misc]
        self._enter(Phase.STARTING)
        if isinstance(self.queue, EtcdUrl):
            return  # there the partitions are held in etcd, for every machine
        claim = Claim(
            self.own.name,
            os.getpid(),
            str(self.queue),
            self.own.group,
            self.own.partitions,
            tuple(store.url for store in self.stores),
        )
        self._claims.take(claim)

    def _stand_by(self, store: Store, who: str) -> None:
        self._queue_side.check()
        self._enter(Phase.STANDBY, f"{who} writes to {store.url}")
        self._wait(_STANDBY_S)

    def _start(self) -> None:
        """Spark starts while the queue is asked; the streams start when both are there."""
        with ThreadPoolExecutor(1, "spark-start") as pool:
            starting = pool.submit(self.spark_run.start)
            try:
                self._wait_for_queue()
                spark = self._started(starting)
            except BaseException:
                self.spark_run.kill()
                raise
        start_warm_up(spark)
        spark.streams.addListener(Reports(self._reported))
        for store in self.stores:
            more = store.wants(self.queue, alone=len(self.stores) == 1)
            plan = stream_plan(self.own, self.queue, store.url, time.time(), more)
            self._remember(plan)
            sink = store.sink(spark, self._queue_side.token)
            stream = StoreStream(spark, plan, sink, self.progress, self._queue_side.guard)
            self._streams.append(Kept(stream, self.progress))
        for kept in self._streams:
            kept.start()
        self._start_chores(spark)
        self._queue_side.start()
        self._enter(Phase.RUNNING)
        self.ready.set()

    def _remember(self, plan: StreamPlan) -> None:
        """What was committed before this start: a queue that is taken out of may still have it."""
        last = last_committed(plan.checkpoint) if isinstance(self.queue, EtcdUrl) else None
        if last is not None:
            self.progress.reached(plan.url, last[0], {}, {}, last[1])

    def _wait_for_queue(self) -> None:
        def waiting(why: str) -> None:
            self._enter(Phase.WAITING, why)

        if not self._queue_side.wait(self._stop.is_set, waiting):
            raise _Told
        # In etcd a partition comes to be with its first message.
        is_etcd = isinstance(self.queue, EtcdUrl)
        absent = missing(self.progress.view().bounds, self.own.partitions)
        if absent and not is_etcd:
            raise PipelineError(
                f"{self.queue} has no partition {absent[0]}; see `nexus topics describe"
                f" {self.queue.topic}`, or choose other --partitions"
            )
        self._enter(Phase.STARTING, "Spark")

    def _started(self, starting: Future[SparkSession]) -> SparkSession:
        try:
            return starting.result()
        except Exception:
            if self._stop.is_set():
                raise _Told from None
            raise

    def _start_chores(self, spark: SparkSession) -> None:
        for store in self.stores:
            suffix = f" {store.url}" if len(self.stores) > 1 else ""
            for work in store.chores(spark):
                named = replace(work, name=work.name + suffix)
                self._chores.append(ChoreThread(named, self.progress))
        if not self.own.available_now:
            for chore in self._chores:
                chore.start()

    def _reported(self, report: Report) -> None:
        for kept in self._streams:
            if kept.stream.plan.url == report.name:
                kept.stream.reported(report)
        self._queue_side.done()

    def _carry(self) -> None:
        """Look after the streams until told to stop, or until they have come to their end."""
        while not self._stop.is_set():
            self._check()
            is_done = [kept.look() for kept in self._streams]
            if all(is_done):
                break
            if self.spark_run.wants_archive and self._is_idle():
                self.spark_run.write_archive()
            self._stop.wait(_TICK_S)
        if not self._stop.is_set():
            self._finish_all()

    def _is_idle(self) -> bool:
        """Whether a pause would cost little: it keeps up, and a batch has just ended."""
        view, trigger_s = self.progress.view(), self.own.trigger_ms / 1000
        if view.batch_s is None or view.ended_at is None or view.at - view.since < _SETTLED_S:
            return False
        return view.batch_s < trigger_s and view.at - view.ended_at < trigger_s / 4

    def _check(self) -> None:
        """Raise what no stream could survive."""
        self.spark_run.check()
        self._queue_side.check()
        for store in self.stores:
            if store.lost():
                raise Fenced(f"store {store.url}: another collector has taken over")
        for chore in self._chores:
            if chore.fatal is not None:
                raise chore.fatal

    def _finish_all(self) -> None:
        """Everything is stored: what is derived from it comes up to it too."""
        for kept in self._streams:
            kept.stream.report_last()
        for chore in self._chores:
            if chore.chore.drains:
                chore.drain()
        self._check()

    def _enter(self, phase: Phase, note: str = "") -> None:
        if self._stop.is_set():
            raise _Told
        if self.progress.enter(phase, note) and note:
            log.debug(phase.value, why=note)

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Told

    def _end(self) -> None:
        """In the order in which nothing is cut off that could still be finished."""
        self._stop.set()
        for chore in self._chores:
            chore.stop()
        if self._is_spark_alive():
            for kept in self._streams:
                kept.stream.finish(self._is_cut)
        for chore in self._chores:
            chore.join(0.0 if self._is_cut() else _CHORE_END_S)
        self._queue_side.stop()
        self.progress.enter(Phase.STOPPING, "Spark")
        for store in self.stores:
            store.release()
        self._claims.release()
        self.spark_run.stop()
        self.progress.enter(Phase.ENDED)

    def _is_cut(self) -> bool:
        return self._cut.is_set() or not self._is_spark_alive()

    def _is_spark_alive(self) -> bool:
        try:
            self.spark_run.check()
        except PipelineError:
            return False
        return not self._cut.is_set()
