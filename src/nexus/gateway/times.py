"""Times as clients write them: RFC 3339, a number since 1970, or relative to now.

A number below 100,000,000,000 counts seconds and may have a fraction; from there on it counts
milliseconds (as seconds it would be past the year 5138). What is before 1970 means 1970: there
are no older readings.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from nexus.settings.units import parse_duration_ms

MILLISECONDS_FROM: Final = 100_000_000_000
LATEST_US: Final = 253_402_300_799_999_999  # the end of the year 9999
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_NUMBER: Final = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_RELATIVE: Final = re.compile(r"now(?:([+ -])(.+))?", re.ASCII)
_RFC_3339: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+ -]\d{2}:\d{2})", re.ASCII
)
# What the API's description says of a time; it lets impossible dates through (30 February).
PATTERN: Final = (
    r"^(now([+-]([0-9]{1,6}(ms|s|m|h|d|w)){1,4})?"
    r"|[0-9]{1,14}(\.[0-9]{1,9})?"
    r"|[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))$"
)
EXPECTED: Final = (
    "expected a time such as 2025-07-18T20:42:34Z, 1752871354 (seconds), 1752871354000"
    " (milliseconds), now or now-15m"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as it was written; relative ones are settled when somebody says now."""

    text: str
    at_us: int  # since 1970, or from now
    relative: bool = False

    def resolve(self, now_us: int) -> int:
        """Microseconds since 1970."""
        at = now_us + self.at_us if self.relative else self.at_us
        return min(max(at, 0), LATEST_US)


def parse_moment(text: str) -> Moment:
    """A time in any of the forms; ValueError says what would be right."""
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped):
        return Moment(stripped, _number_us(stripped))
    if (relative := _RELATIVE.fullmatch(stripped)) is not None:
        return Moment(stripped, _relative_us(relative[1], relative[2]), relative=True)
    if (found := _RFC_3339.fullmatch(stripped)) is not None:
        return Moment(stripped, _calendar_us(found))
    raise ValueError(EXPECTED)


def rfc3339(at_us: int) -> str:
    """A time in UTC with Z; microseconds only when they are not zero."""
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat().removesuffix("+00:00") + "Z"


def _number_us(text: str) -> int:
    value = Decimal(text)
    at = int(value * (1_000 if value >= MILLISECONDS_FROM else 1_000_000))
    if at > LATEST_US:
        raise ValueError(EXPECTED)
    return at


def _relative_us(sign: str | None, text: str | None) -> int:
    if text is None:
        return 0
    try:
        distance = parse_duration_ms(text) * 1_000
    except ValueError:
        raise ValueError(EXPECTED) from None
    # A plus that was not escaped arrives as a space.
    return -distance if sign == "-" else distance


def _calendar_us(found: re.Match[str]) -> int:
    fraction = (found[3] or "")[:6].ljust(6, "0")
    zone = found[4].replace(" ", "+").upper().replace("Z", "+00:00")
    try:
        whole = datetime.fromisoformat(f"{found[1]}T{found[2]}.{fraction}{zone}")
    except ValueError as error:
        raise ValueError(f"{error}; {EXPECTED}") from None
    return (whole - _EPOCH) // _MICROSECOND
