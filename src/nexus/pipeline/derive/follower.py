"""Keeps the derived tables after `readings`, in a thread of the application that writes it.

`latest` and `gpus` go first, since people look at them, then the minutes, then the hours. Every
step works from committed versions of `readings`, so that a batch that is played again changes
nothing here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nexus.lake.errors import Fenced, StoreError
from nexus.lake.fence import Fence
from nexus.lake.url import StoreUrl
from nexus.pipeline.derive.engine import JOB_GROUP, Engine
from nexus.pipeline.derive.options import SNAPSHOTS, WIDTHS, DeriveOptions
from nexus.pipeline.derive.progress import Progress, TableProgress
from nexus.pipeline.derive.rollup_table import RollupTable
from nexus.pipeline.derive.snapshots import Snapshots
from nexus.pipeline.errors import PipelineError

_log: Final = logging.getLogger(__name__)
_PATIENCE_S: Final = 60.0  # between two tries, at most


class Follower:
    """All derived tables of a store; for the holder of its lock, in one thread at a time."""

    def __init__(
        self,
        spark: SparkSession,
        store: StoreUrl,
        fence: Fence,
        clock: Callable[[], float] = time.time,
        options: DeriveOptions | None = None,
    ) -> None:
        self._options = options or DeriveOptions()
        self._engine = Engine.beside(spark, store, fence, self._options)
        self._clock = clock
        self._readings = self._engine.table("readings")
        self._snapshots = Snapshots(self._engine, self._readings)
        self._rollups = {
            name: RollupTable(self._engine, self._readings, name, width)
            for name, width in WIDTHS.items()
        }
        self.progress: Progress | None = None
        self.problem = ""  # what the last step failed of

    def step(self, *, drain: bool = False, stopped: Callable[[], bool] = lambda: False) -> Progress:
        """Do what is due. With `drain`, also what could wait for more to do at once."""
        self._place_jobs()
        now_s = self._clock()
        tables: dict[str, TableProgress] = {}
        version = self._readings.refresh()
        both = self._snapshots.step(now_s, drain=drain, stopped=stopped)
        tables.update(dict.fromkeys(SNAPSHOTS, both))
        for name, rollup in self._rollups.items():
            self._readings.refresh()
            tables[name] = rollup.step(now_s, drain=drain, stopped=stopped)
        self.progress = Progress(version, tables)
        return self.progress

    def run(self, stop: Event) -> None:
        """Step until told to stop. Fenced ends it; anything else is tried again."""
        wait_s = 0.0
        while not stop.wait(wait_s):
            try:
                said = self.step(stopped=stop.is_set)
            except Fenced:
                raise
            except (PipelineError, StoreError, PySparkException, Py4JError, OSError) as error:
                if stop.is_set():
                    return  # jobs are cancelled when the application ends
                self.problem = _first_line(error)
                _log.warning("derived tables: %s; trying again", self.problem)
                wait_s = min(_PATIENCE_S, max(1.0, 2 * wait_s))
            else:
                self.problem = ""
                wait_s = 0.0 if said.unfinished else self._options.interval_s

    def cancel(self) -> None:
        """End the running jobs, from another thread; their work is done again later."""
        self._engine.spark.sparkContext.cancelJobGroup(JOB_GROUP)

    def _place_jobs(self) -> None:
        context = self._engine.spark.sparkContext
        context.setJobGroup(JOB_GROUP, "derived tables")
        if self._options.pool is not None:
            context.setLocalProperty("spark.scheduler.pool", self._options.pool)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
