"""Where derived tables are computed: a Spark session of its own, a store, and the right to write.

The session shares the application's cores and workers; its settings are the jobs' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from nexus.lake.datafile import DataFile
from nexus.lake.fence import Fence
from nexus.lake.files import NewFile, TableFiles
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.pipeline.derive.options import DeriveOptions
from nexus.pipeline.derive.windows import DAY, Held, micros
from nexus.telemetry.tables import TABLES

JOB_GROUP: Final = "nexus-derive"
CLOSED_APP: Final = "closed"  # seconds since 1970: all windows before are stored
_CONF: Final = {
    # Groups are kept in a hash map however many there are: a task has few enough rows.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "10000000",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


@dataclass(frozen=True)
class Engine:
    """What every job of a derived table needs."""

    spark: SparkSession
    store: StoreUrl
    fence: Fence
    options: DeriveOptions

    @classmethod
    def beside(
        cls, spark: SparkSession, store: StoreUrl, fence: Fence, options: DeriveOptions
    ) -> Engine:
        """An engine in a session beside the given one."""
        session = spark.newSession()
        for name, value in _CONF.items():
            session.conf.set(name, value)
        return cls(session, store, fence, options)

    @property
    def cores(self) -> int:
        return int(self.spark.sparkContext.defaultParallelism)

    def table(self, name: str) -> LakeTable:
        return LakeTable.open(self.store, TABLES[name])

    def files_of(self, name: str) -> TableFiles:
        return TableFiles(self.store, TABLES[name])

    def partitions(self, rows: int) -> int:
        """How many tasks so many readings are grouped in."""
        by_memory = -(-rows // self.options.partition_rows)
        by_cores = min(self.cores, -(-rows // (self.options.partition_rows // 4)))
        return max(1, by_memory, by_cores)

    def drop(self, name: str, files: Iterable[NewFile]) -> None:
        """Remove files that no commit names."""
        self.files_of(name).remove([file.path for file in files])


def held(file: DataFile) -> Held:
    """A file's span of time; without statistics it is the day that it belongs to."""
    if file.low is not None and file.high is not None:
        return Held(micros(file.low), micros(file.high), file.rows)
    day = micros(datetime.fromisoformat(file.partition["day"]).replace(tzinfo=UTC))
    return Held(day, day + DAY - 1, file.rows)


def marked(rows: DataFrame, *, is_old: bool) -> DataFrame:
    """Rows with a column that says whether they were in the table before."""
    return rows.withColumn("is_old", F.lit(is_old))


def rows_of(files: Sequence[DataFile]) -> int:
    return sum(file.rows for file in files)
