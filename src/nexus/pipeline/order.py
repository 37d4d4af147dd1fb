"""One shuffle puts a batch in the order of its files, in which copies of a reading are neighbours.

Files are sorted by GPU and time; so the sort that they need anyway is also what finds the copies.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# What makes two good readings copies of each other. GPUs come before: files are sorted by them.
IDENTITY: Final = ("timestamp", "series_a", "series_b")
# Of two copies the first is kept: by when it was taken, then by where it stands in the queue.
PLACE: Final = ("partition", "offset", "row")
_FIRST: Final = ("ingested", *PLACE)
# Every column costs time on its way to the tasks that write, so only these go there.
_NUMBERS: Final = (*IDENTITY, "context", "ingested", "value", "source_value")
REFUSAL: Final = (*PLACE, "reason")  # one text, with spaces between


def in_order(checked: DataFrame, tasks: int, more: Sequence[str] = ()) -> DataFrame:
    """Rows sorted by GPU and time, contexts before their readings, copies after the first.

    Columns of `checked` that are not always needed come along if they are named.
    """
    return (
        checked.repartition(tasks, "lane")
        .sortWithinPartitions("gpu_key", *IDENTITY, *_FIRST)
        .select("kind", *_NUMBERS, *more, "text", _refusal().alias("refusal"))
    )


def as_they_came(checked: DataFrame) -> DataFrame:
    """The same columns without a shuffle, and where each row stands in the queue."""
    return checked.select("kind", *_NUMBERS, *PLACE, "text", _refusal().alias("refusal"))


def _refusal() -> Column:
    return F.when(F.col("reason").isNotNull(), F.concat_ws(" ", *REFUSAL))
