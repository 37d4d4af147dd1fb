"""Readings in the narrow form, as a task of the source would give them."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from nexus.pipeline.narrow import NARROW_SCHEMA, Narrower
from nexus.telemetry.normalise import normalise
from support.readings import readings
from support.spark import spark_session


def narrow_rows(rows: Sequence[Mapping[str, object]], partition: int = 0) -> pa.Table:
    """Readings (source columns), each the only one of a message; offsets are their places."""
    if not rows:
        return NARROW_SCHEMA.empty_table()
    place = pa.arange(0, len(rows))
    partitions = pa.repeat(pa.scalar(partition, pa.int32()), len(rows))
    zeros = pa.repeat(pa.scalar(0, pa.int32()), len(rows))
    batches = Narrower().batches(normalise(readings(*rows)), partitions, place, zeros)
    return pa.Table.from_batches(list(batches), NARROW_SCHEMA)


def narrow_frame(rows: Sequence[Mapping[str, object]], partition: int = 0) -> DataFrame:
    """The same as a DataFrame."""
    return spark_session().createDataFrame(narrow_rows(rows, partition))
