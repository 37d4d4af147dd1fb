"""How far Spark is within one chunk, for whoever looks at a progress bar: by tasks that ended."""

import threading
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from pyspark import SparkContext
from pyspark.sql import SparkSession

_GROUP: Final = "spark.jobGroup.id"
_POLL_S: Final = 0.5


class Watch:
    """While a block runs, tells how many bytes of its chunk are done."""

    def __init__(self, spark: SparkSession, size: int, show: Callable[[float], None]) -> None:
        self._context = spark.sparkContext
        self._size = size
        self._show = show
        self._group = f"backfill-{uuid4().hex}"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="backfill-watch", daemon=True)

    def __enter__(self) -> "Watch":
        self._before = self._context.getLocalProperty(_GROUP)
        self._context.setLocalProperty(_GROUP, self._group)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        # None takes the property away, whatever the signature says.
        self._context.setLocalProperty(_GROUP, self._before)  # type: ignore[arg-type]

    def _run(self) -> None:
        shown = 0.0
        while not self._over.wait(_POLL_S):
            share = share_done(self._context, self._group)
            if share > shown:
                shown = share
                self._show(share * self._size)


def share_done(context: SparkContext, group: str) -> float:
    """The share of the group's tasks that have ended, of those that are known by now."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    tasks = sum(stage.numTasks for stage in known)
    return sum(stage.numCompletedTasks for stage in known) / tasks if tasks else 0.0
