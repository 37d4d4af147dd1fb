"""The data source "nexus": readings from a queue into Spark, in a stream or at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "nexus"


def register(spark: SparkSession, name: str = NAME) -> None:
    """Make `spark.readStream.format(name)` and `spark.read.format(name)` known.

    Each of several streams in one session needs a name of its own. A stream that starts writes
    into the environment of the source it was registered with, a map without a lock, while others
    may write there or send it to their tasks: once its size is wrong, no task can be read again.
    """
    from nexus.pipeline.source.datasource import NexusSource  # noqa: PLC0415 - Spark is dear

    named = type("NamedNexusSource", (NexusSource,), {"name": classmethod(lambda _: name)})
    spark.dataSource.register(named)
