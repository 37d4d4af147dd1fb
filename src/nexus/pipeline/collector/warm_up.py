"""Does a batch's work once, on two rows, while Spark's planning processes are still starting.

Those load Python modules one after the other, on one core. Meanwhile the other one can start the
Python workers, and Java can load and compile what the first batch is going to need.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from nexus.observe.logs import get_logger
from nexus.pipeline.narrow import CONTEXT
from nexus.pipeline.order import in_order
from nexus.pipeline.sink.writer import WRITTEN_DDL
from nexus.pipeline.source.datasource import spark_schema
from nexus.pipeline.validate import validate

log = get_logger(__name__)


def start_warm_up(spark: SparkSession) -> threading.Thread:
    """Begin it, in a thread of its own; nothing depends on how it ends."""
    thread = threading.Thread(target=_run, args=(spark,), name="warm-up", daemon=True)
    thread.start()
    return thread


def _run(spark: SparkSession) -> None:
    try:
        tasks = spark.sparkContext.defaultParallelism
        in_order(validate(_rows(spark, tasks)), tasks).mapInArrow(_nothing, WRITTEN_DDL).collect()
    except (PySparkException, Py4JError, OSError) as error:  # also when the collector is stopped
        log.debug("warm-up ended early", error=str(error).partition("\n")[0])


def _rows(spark: SparkSession, tasks: int) -> DataFrame:
    """A row of the narrow form for each task, with nothing in it."""
    empty = {field.name: F.lit(None).cast(field.dataType) for field in spark_schema("narrow")}
    kind = {"lane": F.col("id").cast("int"), "kind": F.lit(CONTEXT).cast("byte")}
    columns = [column.alias(name) for name, column in (empty | kind).items()]
    return spark.range(0, tasks, numPartitions=tasks).select(*columns)


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield from ()
