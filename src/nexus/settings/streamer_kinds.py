"""Kinds of values that only the streamer's settings have: sources, speeds, shares."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nexus.settings import units

_SHARE: Final = re.compile(r"(\d{1,6})\s*/\s*(\d{1,6})")
_SPEED_MAX: Final = 1_000_000.0


@dataclass(frozen=True, slots=True)
class SourceUrl:
    """`csv:///path`, `exporter://…`, `nvml://`, `sim://…`, `recording://`, or a file's path."""

    def parse(self, raw: object) -> str:
        if isinstance(raw, Path):
            raw = str(raw)
        if not isinstance(raw, str) or not raw.strip() or not raw.isprintable():
            raise ValueError('a source such as "csv:///data/readings.csv" or "sim://?hosts=4"')
        text = raw.strip()
        if "://" in text:
            return text
        return f"csv://{Path(text).expanduser().absolute()}"

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class SourceList:
    """One source, or a list of them. Commas divide nothing: they are part of some addresses."""

    def parse(self, raw: object) -> tuple[str, ...]:
        items = raw if isinstance(raw, list | tuple) else [raw]
        return tuple(SourceUrl().parse(item) for item in items)

    def show(self, value: object) -> str:
        return " ".join(value) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, slots=True)
class Speed:
    """How many times as fast as it was recorded: `1x`, `10x`, `0.5`."""

    def parse(self, raw: object) -> float:
        text = str(raw).strip().lower().removesuffix("x") if not isinstance(raw, bool) else ""
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0.0 < value <= _SPEED_MAX:
            raise ValueError("a speed above 0 such as 1x, 10x or 0.5x")
        return value

    def show(self, value: object) -> str:
        return f"{value:g}x" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long something lives, in whole seconds: `86400`, or with a unit as in `24h`."""

    least: int = 1
    most: int = 10 * 365 * 86_400

    def parse(self, raw: object) -> int:
        seconds = self._seconds(raw)
        if seconds is None or not self.least <= seconds <= self.most:
            raise ValueError("a time such as 24h, or a number of seconds")
        return seconds

    def show(self, value: object) -> str:
        return units.format_duration(value * 1000) if isinstance(value, int) else str(value)

    def _seconds(self, raw: object) -> int | None:
        text = str(raw).strip() if not isinstance(raw, bool) else ""
        if text.isascii() and text.isdigit():
            return int(text) if len(text) <= 12 else None
        try:
            return units.parse_duration_ms(text) // 1000
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Share:
    """One of n equal shares, counted from 0: `0/4` to `3/4`."""

    def parse(self, raw: object) -> tuple[int, int]:
        found = _SHARE.fullmatch(raw.strip()) if isinstance(raw, str) else None
        if found is None or int(found[1]) >= int(found[2]):
            raise ValueError("a share i/n with i from 0 to n-1, such as 0/4")
        return int(found[1]), int(found[2])

    def show(self, value: object) -> str:
        return "{}/{}".format(*value) if isinstance(value, tuple) else str(value)
