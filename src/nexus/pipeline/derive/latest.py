"""The last reading of each series, in Spark expressions: numbered readings to numbered readings."""

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from nexus.pipeline.derive.numbered import CONTEXT, LANE, SERIES, TOLD
from nexus.pipeline.narrow import NUMBER_COLUMNS, TEXT_COLUMNS
from nexus.telemetry.reading import READING_SCHEMA, TIMESTAMP

TEXT: Final = TEXT_COLUMNS
READ: Final = NUMBER_COLUMNS  # what it needs of readings, beside their text
FIRST: Final = "first_timestamp"
PART: Final = pa.schema([*(READING_SCHEMA.field(n) for n in READ), pa.field(FIRST, TIMESTAMP)])
KEY: Final = (LANE, *SERIES, TOLD)  # contexts pass through, as groups of their own


def last_of_series(parts: DataFrame) -> DataFrame:
    """Of some readings of each series, with the time of its first beside them, the last."""
    moment = F.col("timestamp")
    others = [name for name in (CONTEXT, *READ) if name != "timestamp"]
    return parts.groupBy(*KEY).agg(
        *(F.max_by(name, moment).alias(name) for name in others),
        F.min(FIRST).alias(FIRST),
        F.max(moment).alias("timestamp"),
    )
