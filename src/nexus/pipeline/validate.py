"""What may go into the table, and why the rest may not; in Spark expressions.

Takes the narrow form and gives the checked form: `reason` is null for good readings, for contexts
and for acknowledgements. Nothing is dropped here: what has a reason goes to quarantine.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from nexus.pipeline.narrow import ACK, CONTEXT, NARROW_SCHEMA
from nexus.telemetry.checks import NO_NUMBER, NO_TIME, TOO_EARLY, TOO_LATE

_JUDGED: Final = ("fault", "low", "high")  # what only this module looks at
CHECKED: Final = (*(name for name in NARROW_SCHEMA.names if name not in _JUDGED), "reason")

_EARLIEST_US: Final = 946_684_800_000_000  # the year 2000
_AHEAD_US: Final = 10 * 60 * 1_000_000


def validate(rows: DataFrame, now: Column | None = None) -> DataFrame:
    """Say of every row why it is refused, if it is.

    The time is the batch's own, which Spark keeps: a replayed batch is judged as it was before.
    """
    reason = F.coalesce(
        F.col("fault"), _time_fault(F.current_timestamp() if now is None else now), _value_fault()
    )
    judged = F.when(~F.col("kind").isin(CONTEXT, ACK), reason)
    return rows.withColumn("reason", judged).select(*CHECKED)


def _time_fault(now: Column) -> Column:
    # As numbers: an interval is added by the calendar, and for every row anew.
    time_us, now_us = F.unix_micros(F.col("timestamp")), F.unix_micros(now)
    return (
        F.when(time_us.isNull(), NO_TIME)
        .when(time_us < _EARLIEST_US, TOO_EARLY)
        .when(time_us > now_us + _AHEAD_US, TOO_LATE)
    )


def _value_fault() -> Column:
    value, source = F.col("value"), F.col("source_value")
    low, high = F.col("low"), F.col("high")
    outside = F.concat(
        F.lit("the value "), value.cast("string"), F.lit(" is outside of "),
        low.cast("string"), F.lit(" to "), high.cast("string"),
    )  # fmt: skip
    infinite = F.abs(source) == F.lit(float("inf"))
    return F.when(source.isNull() | F.isnan(source) | infinite, NO_NUMBER).when(
        (value < low) | (value > high), outside
    )
