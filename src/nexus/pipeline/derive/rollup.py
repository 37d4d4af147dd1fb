"""Each series by windows of time, in Spark expressions: parts of windows put together.

Everything is exact: `mean` up to the rounding of a sum, and the percentiles are nearest ranks,
each a value that was read. A null value is a reading that says "not collected": it is counted in
`missing` and in nothing else. What the device was called and who held it is what the last reading
of the window says.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from nexus.pipeline.derive.numbered import CONTEXT, LANE, SERIES, TOLD

READ: Final = ("timestamp", "value")  # what a rollup needs of readings, beside their text
PERCENTILES: Final = {"p50": 50, "p95": 95, "p99": 99}
KEY: Final = (LANE, *SERIES, TOLD, "start")  # contexts pass through, as groups of their own
MEASURES: Final = ("count", "missing", "min", "max", "mean", "last", "last_timestamp", *PERCENTILES)


def rollup(parts: DataFrame) -> DataFrame:
    """The windows that these are all the parts of (numbered, with the columns of WINDOW_PART)."""
    together = parts.groupBy(*KEY).agg(
        F.max_by(CONTEXT, "newest").alias(CONTEXT),
        F.sum("missing").alias("missing"),
        F.sum("total").alias("total"),
        F.max_by("last", "last_timestamp").alias("last"),
        F.max("last_timestamp").alias("last_timestamp"),
        F.sort_array(F.flatten(F.collect_list("values"))).alias("values"),
    )
    return together.select(
        *KEY,
        CONTEXT,
        F.size("values").cast("long").alias("count"),
        *("missing", "last", "last_timestamp"),
        F.get("values", F.lit(0)).alias("min"),
        F.get("values", F.size("values") - 1).alias("max"),
        _mean().alias("mean"),
        *(_nearest_rank(percent).alias(name) for name, percent in PERCENTILES.items()),
    )


def _mean() -> Column:
    """The mean, also of values whose sum is more than a number can be."""
    count = F.size("values").cast("double")
    fits = F.abs("total") < F.lit(float("inf"))  # Spark has NaN above all numbers
    careful = F.aggregate("values", F.lit(0.0), lambda sofar, value: sofar + value / count)
    return F.when(count > 0, F.when(fits, F.col("total") / count).otherwise(careful))


def _nearest_rank(percent: int) -> Column:
    """The least value that so many percent of the values do not exceed."""
    rank = F.floor((F.size("values") * percent + 99) / 100).cast("int")
    return F.get("values", rank - 1)
