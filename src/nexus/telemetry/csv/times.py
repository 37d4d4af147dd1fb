"""Times as CSV files write them, a whole column of distinct texts at once.

RFC 3339 with Z, an offset or none (then UTC), a blank instead of the T, slashes in the date, any
fraction (kept to the microsecond); and epoch seconds. A time is refused when it is none, before
2000, or more than ten minutes ahead of the clock; never for its age.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.reading import TIMESTAMP

NOT_A_TIME: Final = "time is not a time"
TOO_OLD: Final = "time is before 2000"
IN_THE_FUTURE: Final = "time is in the future"

EARLIEST_US: Final = 946_684_800_000_000  # 2000-01-01T00:00:00Z
FUTURE_SLACK_US: Final = 600_000_000

_TEXT: Final = (
    r"^\s*(?P<date>\d{4}[-/]\d{2}[-/]\d{2})[Tt ]\s*(?P<time>\d{2}:\d{2})(?P<seconds>:\d{2})?"
    r"(?:[.,](?P<fraction>\d{1,6})\d*)?"
    r"\s*(?:[Zz]|UTC|(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2})?)?\s*$"
)
_EPOCH: Final = r"^\s*\d{1,11}(\.\d*)?([eE]\+?\d{1,2})?\s*$"
_NANOSECONDS: Final = pa.timestamp("ns", tz="UTC")
_EARLIEST: Final = pa.scalar(EARLIEST_US, pa.int64())
_FALSE: Final = pa.scalar(False)
_REASONS: Final = tuple(pa.scalar(r) for r in (NOT_A_TIME, TOO_OLD, IN_THE_FUTURE))
_NO_INT: Final = pa.scalar(None, pa.int64())


@dataclass(frozen=True)
class Times:
    """A time for each text (null where refused), and why it was refused (null where it was not)."""

    values: pa.Array
    reasons: pa.Array


def parse_times(texts: pa.Array, now_us: int) -> Times:
    """Parse distinct texts; the two arrays have one element for each."""
    return _bounded(_microseconds(texts), now_us)


def _microseconds(texts: pa.Array) -> pa.Array:
    for plainest in (TIMESTAMP, _NANOSECONDS):
        with suppress(pa.ArrowInvalid):  # raised for all when one of them is in another form
            return texts.cast(plainest).cast(TIMESTAMP, safe=False).cast(pa.int64())
    return pc.coalesce(_from_text(texts), _from_epoch(texts))


def _from_epoch(texts: pa.Array) -> pa.Array:
    numeric = pc.match_substring_regex(texts, _EPOCH)
    trimmed = pc.utf8_trim_whitespace(pc.if_else(numeric, texts, pa.scalar(None, pa.string())))
    micros = pc.round(pc.multiply(trimmed.cast(pa.float64()), 1e6))
    return pc.if_else(pc.less(micros, 9e18), micros, None).cast(pa.int64())


def _from_text(texts: pa.Array) -> pa.Array:
    parts = pc.extract_regex(texts, _TEXT)
    date = pc.replace_substring(pc.struct_field(parts, "date"), "/", "-")
    seconds = pc.struct_field(parts, "seconds")
    seconds = pc.if_else(pc.equal(seconds, ""), ":00", seconds)
    moment = pc.binary_join_element_wise(date, pc.struct_field(parts, "time"), seconds, "")
    seconds = pc.strptime(moment, "%Y-%m-%d%H:%M:%S", "s", error_is_null=True)
    # strptime rolls 31 February over into March: a day that changed was none.
    real = pc.equal(pc.strftime(seconds, "%Y-%m-%d"), date)
    micros = pc.multiply(seconds.cast(pa.int64()), 1_000_000)
    fraction = pc.utf8_rpad(pc.struct_field(parts, "fraction"), 6, "0")
    micros = pc.add(micros, _integer(fraction))
    return pc.if_else(real, pc.subtract(micros, _offset_us(parts)), _NO_INT)


def _offset_us(parts: pa.Array) -> pa.Array:
    hours = _integer(pc.struct_field(parts, "hours"))
    minutes = pc.add(pc.multiply(hours, 60), _integer(pc.struct_field(parts, "minutes")))
    west = pc.equal(pc.struct_field(parts, "sign"), "-")
    return pc.multiply(pc.if_else(west, pc.negate(minutes), minutes), 60_000_000)


def _integer(digits: pa.Array) -> pa.Array:
    """The number; 0 where there are no digits."""
    return pc.if_else(pc.equal(digits, ""), "0", pc.fill_null(digits, "0")).cast(pa.int64())


def _bounded(micros: pa.Array, now_us: int) -> Times:
    # Scalars are made here: a bare Python value costs pyarrow more than the comparison.
    latest = pa.scalar(now_us + FUTURE_SLACK_US, pa.int64())
    none = pc.is_null(micros)
    old = pc.fill_null(pc.less(micros, _EARLIEST), _FALSE)
    ahead = pc.fill_null(pc.greater(micros, latest), _FALSE)
    reasons = pc.case_when(pc.make_struct(none, old, ahead), *_REASONS)
    kept = pc.if_else(pc.is_null(reasons), micros, _NO_INT)
    return Times(kept.cast(TIMESTAMP), reasons)
