"""One shuffle puts a batch in the order of its files and finds the copies in it.

Files are sorted by GPU and time. In that order copies of a reading are neighbours, so that the
sort which the files need anyway also finds them.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from nexus.pipeline.narrow import READING

COPY: Final = 3  # the kind of a reading whose copy stands before it

# A refused reading is no copy of a good one, and no reason to drop it.
_IDENTITY: Final = ("gpu_key", "lane", "timestamp", "series_a", "series_b", "is_refused")
# Of two copies the first is kept: by when it was taken, then by where it stands in the queue.
_FIRST: Final = ("ingested", "partition", "offset", "row")
# Every column costs time on its way to the tasks that write, so only these go there.
_NUMBERS: Final = ("series_a", "context", "timestamp", "ingested", "value", "source_value")
REFUSAL: Final = ("partition", "offset", "row", "reason")  # one text, with spaces between


def in_order(checked: DataFrame, tasks: int) -> DataFrame:
    """Rows sorted by GPU and time, contexts before their readings, copies marked."""
    return (
        checked.withColumn("is_refused", F.col("reason").isNotNull())
        .repartition(tasks, "lane")
        .withColumn("is_copy", F.row_number().over(_neighbours()) > 1)
        .select(_kind().alias("kind"), *_NUMBERS, "text", _refusal().alias("refusal"))
    )


def _neighbours() -> WindowSpec:
    return Window.partitionBy(*_IDENTITY).orderBy(*_FIRST)


def _kind() -> Column:
    is_copy = F.col("is_copy") & (F.col("kind") == READING)
    return F.when(is_copy, F.lit(COPY).cast("byte")).otherwise(F.col("kind"))


def _refusal() -> Column:
    return F.when(F.col("is_refused"), F.concat_ws(" ", *REFUSAL))
