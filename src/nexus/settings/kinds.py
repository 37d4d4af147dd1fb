"""What a value may be. A kind reads a raw value (YAML, environment, flag) and writes it back.

`parse` raises ValueError whose text says what would be right; the loader adds where and which key.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nexus.settings import units


class Kind(Protocol):
    """How one option's values are read, described and shown."""

    def parse(self, raw: object) -> object: ...
    def show(self, value: object) -> str: ...


@dataclass(frozen=True, slots=True)
class Text:
    """Any text of at least one character."""

    expected: str = "text"

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or not raw.strip() or not raw.isprintable():
            raise ValueError(self.expected)
        return raw.strip()

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Directory:
    """A path; `~` is the user's home."""

    def parse(self, raw: object) -> Path:
        if isinstance(raw, Path):
            return raw.expanduser()
        if not isinstance(raw, str) or not raw.strip() or "\0" in raw:
            raise ValueError('a directory such as "./data/broker"')
        return Path(raw).expanduser()

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    def parse(self, raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        word = raw.strip().lower() if isinstance(raw, str) else ""
        if word in ("true", "yes", "on", "1"):
            return True
        if word in ("false", "no", "off", "0"):
            return False
        raise ValueError("true or false")

    def show(self, value: object) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds."""

    least: int = 0
    most: int = 2**31 - 1

    def parse(self, raw: object) -> int:
        value = _whole(raw)
        if value is None or not self.least <= value <= self.most:
            raise ValueError(f"a whole number from {self.least} to {self.most}")
        return value

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A number from 0 to 1."""

    def parse(self, raw: object) -> float:
        try:
            value = float(raw) if isinstance(raw, int | float | str) else -1.0
        except ValueError:
            value = -1.0
        if isinstance(raw, bool) or not 0.0 <= value <= 1.0:
            raise ValueError("a number from 0 to 1")
        return value

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes: `1GB`, `512KB`, or a plain number of bytes."""

    least: int = 0
    most: int = 2**63 - 1
    unlimited: bool = False

    def parse(self, raw: object) -> int:
        value = self._bytes(raw)
        if value is None or not (self._may_be_unlimited(value) or self.least <= value <= self.most):
            raise ValueError(self._expected())
        return value

    def show(self, value: object) -> str:
        return units.format_size(value) if isinstance(value, int) else str(value)

    def _bytes(self, raw: object) -> int | None:
        plain = _whole(raw)
        if plain is not None or not isinstance(raw, str):
            return plain
        try:
            return units.parse_size(raw)
        except ValueError:
            return None

    def _may_be_unlimited(self, value: int) -> bool:
        return self.unlimited and value == units.UNLIMITED

    def _expected(self) -> str:
        return _expected("a size such as 1GB or 512KB", self, units.format_size)


@dataclass(frozen=True, slots=True)
class Duration:
    """A time in milliseconds, written with its unit: `24h`, `5ms`. Bare numbers are ambiguous."""

    least: int = 0
    most: int = 100 * 365 * 86_400_000
    unlimited: bool = False

    def parse(self, raw: object) -> int:
        plain = _whole(raw)
        if plain == units.UNLIMITED and self.unlimited:
            return units.UNLIMITED
        if plain is not None and plain != 0:
            raise ValueError(f"a duration with its unit, such as {plain}ms, {plain}s or {plain}h")
        value = plain if plain is not None else self._milliseconds(raw)
        if value is None or not self.least <= value <= self.most:
            raise ValueError(_expected("a duration such as 24h, 1s or 5ms", self, _duration_bound))
        return value

    def show(self, value: object) -> str:
        return units.format_duration(value) if isinstance(value, int) else str(value)

    def _milliseconds(self, raw: object) -> int | None:
        try:
            return units.parse_duration_ms(raw) if isinstance(raw, str) else None
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, raw: object) -> str:
        word = raw.strip().lower() if isinstance(raw, str) else ""
        if word not in self.words:
            raise ValueError("one of " + ", ".join(self.words))
        return word

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class TextList:
    """A list of texts; in the environment and in flags, separated by commas."""

    item: Kind = Text()
    expected: str = "a list of texts"

    def parse(self, raw: object) -> tuple[str, ...]:
        items = raw.split(",") if isinstance(raw, str) else raw
        if not isinstance(items, list | tuple):
            raise ValueError(self.expected)
        return tuple(str(self.item.parse(item)) for item in items)

    def show(self, value: object) -> str:
        return ", ".join(value) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, slots=True)
class HostPort:
    """`host:port`, with an IPv6 host in brackets."""

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError("host:port such as broker-1:9092")
        split_host_port(raw.strip())
        return raw.strip()

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Maybe:
    """A kind whose value may be absent (null)."""

    kind: Kind

    def parse(self, raw: object) -> object:
        return None if raw is None else self.kind.parse(raw)

    def show(self, value: object) -> str:
        return "" if value is None else self.kind.show(value)


def split_host_port(text: str) -> tuple[str, int]:
    """`127.0.0.1:9092` or `[::1]:9092` as its two parts; ValueError says what would be right."""
    host, separator, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("host:port, with an IPv6 address in brackets such as [::1]:9092")
    if not separator or not host or not port.isdecimal() or int(port[:6]) > 65535:
        raise ValueError("host:port such as 127.0.0.1:9092")
    return host, int(port)


def _whole(raw: object) -> int | None:
    """An int as it stands or as decimal text; True and False are not numbers here."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, int):
        return raw
    if isinstance(raw, str):
        text = raw.strip()
        digits = text.removeprefix("-")
        return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else None
    return None


def _duration_bound(value: int) -> str:
    return units.format_duration(value)


def _expected(what: str, bounds: Size | Duration, show: Callable[[int], str]) -> str:
    """The kind's example with the bounds that matter: not the far ends that nobody meets."""
    parts = [what]
    if bounds.least > 0:
        parts.append(f"at least {show(bounds.least)}")
    if bounds.most < type(bounds)().most:
        parts.append(f"at most {show(bounds.most)}")
    if bounds.unlimited:
        parts.append("or -1 for no limit")
    return ", ".join(parts)
