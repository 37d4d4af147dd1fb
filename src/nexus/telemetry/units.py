"""Units of measure: the few that tables use, and the ones that sources use, with exact factors.

A conversion multiplies or divides by one whole number, so its result is the nearest double there
is. Going there and back is not always exact (7 % is not), which is why a reading keeps its source
value and unit: `to_canonical` and `to_unit` of a kept value need no way back.
"""

import re
from dataclasses import dataclass
from typing import Final

from nexus.telemetry.errors import UnitError

RATIO: Final = "ratio"
WATT: Final = "W"
JOULE: Final = "J"
BYTES: Final = "B"
HERTZ: Final = "Hz"
CELSIUS: Final = "C"
SECOND: Final = "s"
BYTES_PER_SECOND: Final = "B/s"
COUNT: Final = "count"
PERCENT: Final = "percent"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: what it is a multiple or a fraction of."""

    name: str
    canonical: str
    multiply: int = 1
    divide: int = 1


UNITS: Final = {
    unit.name: unit
    for unit in (
        *(Unit(name, name) for name in (RATIO, WATT, JOULE, BYTES, HERTZ, CELSIUS, SECOND, COUNT)),
        Unit(BYTES_PER_SECOND, BYTES_PER_SECOND),
        Unit(PERCENT, RATIO, divide=100),
        Unit("mW", WATT, divide=1000),
        Unit("kW", WATT, multiply=1000),
        Unit("mJ", JOULE, divide=1000),
        Unit("kJ", JOULE, multiply=1000),
        Unit("Wh", JOULE, multiply=3600),
        Unit("kWh", JOULE, multiply=3_600_000),
        Unit("KB", BYTES, multiply=1000),
        Unit("MB", BYTES, multiply=1000**2),
        Unit("GB", BYTES, multiply=1000**3),
        Unit("KiB", BYTES, multiply=1024),
        Unit("MiB", BYTES, multiply=1024**2),
        Unit("GiB", BYTES, multiply=1024**3),
        Unit("kHz", HERTZ, multiply=1000),
        Unit("MHz", HERTZ, multiply=1000**2),
        Unit("GHz", HERTZ, multiply=1000**3),
        Unit("ms", SECOND, divide=1000),
        Unit("us", SECOND, divide=1000**2),
        Unit("ns", SECOND, divide=1000**3),
        Unit("KB/s", BYTES_PER_SECOND, multiply=1000),
        Unit("MB/s", BYTES_PER_SECOND, multiply=1000**2),
        Unit("GB/s", BYTES_PER_SECOND, multiply=1000**3),
        Unit("KiB/s", BYTES_PER_SECOND, multiply=1024),
        Unit("MiB/s", BYTES_PER_SECOND, multiply=1024**2),
    )
}

# What help texts, CSV headers and other exporters write for a unit of the table above.
SPELLINGS: Final = {
    "%": PERCENT,
    "pct": PERCENT,
    "percentage": PERCENT,
    "watt": WATT,
    "watts": WATT,
    "milliwatts": "mW",
    "joule": JOULE,
    "joules": JOULE,
    "millijoules": "mJ",
    "bytes": BYTES,
    "byte": BYTES,
    "hertz": HERTZ,
    "megahertz": "MHz",
    "celsius": CELSIUS,
    "degrees celsius": CELSIUS,
    "°c": CELSIUS,
    "seconds": SECOND,
    "sec": SECOND,
    "milliseconds": "ms",
    "microseconds": "us",
    "usec": "us",
    "µs": "us",
    "nanoseconds": "ns",
    "bytes per second": BYTES_PER_SECOND,
    "bytes/s": BYTES_PER_SECOND,
    "1": RATIO,
    "counts": COUNT,
}
_FOLDED: Final = {**{name.lower(): name for name in UNITS}, **SPELLINGS}
# Only these differ by case alone; the lower-case fold must not make a milliwatt a megawatt.
_EXACT: Final = frozenset(UNITS)

_IN_BRACKETS: Final = re.compile(r"[(\[]\s*(?:in\s+)?([^()\[\]]{1,24}?)\s*[)\]]", re.IGNORECASE)
_RATIO_WORDS: Final = re.compile(
    r"\bratio\b|\bfraction\b|\b0(?:\.0)?\s*(?:-|to)\s*1(?:\.0)?\b", re.IGNORECASE
)
_PERCENT_WORDS: Final = re.compile(r"%|\bpercent(?:age)?\b|\b0\s*(?:-|to)\s*100\b", re.IGNORECASE)
_IN_WORDS: Final = re.compile(r"\bin\s+([A-Za-z%°µ/]+(?:\s+per\s+second)?)", re.IGNORECASE)


def unit_named(text: str) -> Unit:
    """The unit that a text names, in any of its spellings."""
    text = text.strip()
    name = text if text in _EXACT else _FOLDED.get(text.lower())
    if name is None:
        raise UnitError(f"{text!r} is no unit that is known")
    return UNITS[name]


def unit_in_help(text: str) -> str:
    """The unit that a help text tells ("GPU utilization (in %)."), or "" if it tells none."""
    for pattern in (_IN_BRACKETS, _IN_WORDS):
        for found in pattern.finditer(text):
            try:
                return unit_named(found[1].rstrip(".")).name
            except UnitError:
                continue
    if _PERCENT_WORDS.search(text):
        return PERCENT
    return RATIO if _RATIO_WORDS.search(text) else ""


def to_canonical(value: float, unit: str) -> float:
    """A value in the canonical unit of the same quantity."""
    known = unit_named(unit)
    return value * known.multiply / known.divide


def to_unit(value: float, unit: str) -> float:
    """A canonical value in another unit of the same quantity."""
    known = unit_named(unit)
    return value * known.divide / known.multiply
