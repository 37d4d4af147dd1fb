"""Work on a store by hand: its lock for as long as it takes, and a Spark of its own if needed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from nexus.lake.url import parse_store_url
from nexus.pipeline.collector.conf import Places
from nexus.pipeline.collector.session import SparkRun
from nexus.pipeline.collector.stores import DeltaStore
from nexus.pipeline.derive.follower import Follower
from nexus.settings.collector import CollectorSection

_WAIT_S: Final = 0.5


@contextmanager
def held_store(
    own: CollectorSection, *, wait: bool, waiting: Callable[[str], None]
) -> Iterator[DeltaStore]:
    """The store, with the right to write to it; StoreBusy while another has that, or wait."""
    store = DeltaStore(parse_store_url(own.stores[0]), own)

    def hold_on(who: str) -> None:
        waiting(who)
        time.sleep(_WAIT_S)

    store.acquire(hold_on if wait else None)
    try:
        yield store
    finally:
        store.release()


@contextmanager
def spark_for(own: CollectorSection, work: str) -> Iterator[SparkSession]:
    """A Spark of this process's own, which ends with the block."""
    run = SparkRun(own, Places(own.data_dir / f"{work}-{os.getpid()}"))
    try:
        yield run.start()
    finally:
        run.stop()
        run.places.remove()


def derive_all(store: DeltaStore, spark: SparkSession) -> None:
    """Bring what is derived from `readings` up to it."""
    follower = Follower(spark, store.place, store.lock.fence, options=store.derive_options())
    while any(table.unfinished for table in follower.step(drain=True).tables.values()):
        pass
