"""Sizes and durations as people write them: `1GB`, `24h`, `5ms`.

Sizes are binary multiples (1KB = 1024 bytes) and become bytes; durations become milliseconds.
`format_size` and `format_duration` write what the parsers read back to the same value.
"""

import re
from typing import Final

UNLIMITED: Final = -1

_SIZE_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_DURATION_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:I?B)?", re.IGNORECASE | re.ASCII)
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])", re.IGNORECASE | re.ASCII)
_DURATION: Final = re.compile(rf"(?:{_DURATION_PART.pattern}\s*)+", re.IGNORECASE | re.ASCII)
_NUMBER_DIGITS_MAX: Final = 32


def parse_size(text: str) -> int:
    """Bytes in `1GB`, `1GiB`, `1G`, `1.5MB` or `1024`; ValueError for anything else."""
    match = _SIZE.fullmatch(text.strip()) if len(text) <= _NUMBER_DIGITS_MAX else None
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    return _scaled(match[1], _SIZE_UNITS[match[2].upper()])


def parse_duration_ms(text: str) -> int:
    """Milliseconds in `24h`, `5ms`, `1.5s` or `1h30m`; a number without a unit is a ValueError."""
    stripped = text.strip()
    if len(text) > _NUMBER_DIGITS_MAX or not _DURATION.fullmatch(stripped):
        raise ValueError(f"not a duration: {text!r}")
    parts = _DURATION_PART.findall(stripped)
    return sum(_scaled(number, _DURATION_MS[unit.lower()]) for number, unit in parts)


def format_size(size: int) -> str:
    """The shortest exact way to write a number of bytes: 1073741824 is `1GB`."""
    for prefix in ("P", "T", "G", "M", "K"):
        if size and size % _SIZE_UNITS[prefix] == 0:
            return f"{size // _SIZE_UNITS[prefix]}{prefix}B"
    return str(size)


def format_duration(duration_ms: int) -> str:
    """The shortest exact way to write milliseconds; 24h stays `24h`, as in every example."""
    if duration_ms <= 0:
        return str(duration_ms)
    if duration_ms % _DURATION_MS["d"] == 0 and duration_ms > _DURATION_MS["d"]:
        return f"{duration_ms // _DURATION_MS['d']}d"
    for unit in ("h", "m", "s"):
        if duration_ms % _DURATION_MS[unit] == 0:
            return f"{duration_ms // _DURATION_MS[unit]}{unit}"
    return f"{duration_ms}ms"


def _scaled(number: str, unit: int) -> int:
    """Whole results stay exact; a fraction of the smallest unit is refused, not rounded."""
    if "." not in number:
        return int(number) * unit
    whole, fraction = number.split(".")
    numerator = int(whole + fraction) * unit
    scaled, rest = divmod(numerator, int(10 ** len(fraction)))
    if rest and unit <= 1:
        raise ValueError(f"not a whole number of units: {number}")
    return scaled
