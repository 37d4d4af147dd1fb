"""The data source "nexus": readings from a queue into Spark, in a stream or at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `spark.readStream.format("nexus")` and `spark.read.format("nexus")` known."""
    from nexus.pipeline.source.datasource import NexusSource  # noqa: PLC0415 - Spark is dear

    spark.dataSource.register(NexusSource)
