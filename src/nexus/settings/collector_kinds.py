"""Kinds of values of the collector alone: places in a queue, stores, Spark properties."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nexus.settings.entry import Entry
from nexus.settings.units import parse_duration_ms

Pairs = tuple[tuple[str, str], ...]

_SPAN: Final = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?", re.ASCII)
_KEY: Final = re.compile(r"[\w.:-]+", re.ASCII)
_STORE_SCHEME: Final = re.compile(r"[a-z][a-z0-9+]*:")
_BETWEEN_STORES: Final = re.compile(r",(?!\s*(?:\[[^,/]*\]|[^,/:\s]+):\d)")


@dataclass(frozen=True, slots=True)
class StartAt:
    """Where a new collector begins: an end of the queue, a time, how long ago, or offsets."""

    def parse(self, raw: object) -> str:
        text = str(raw).strip() if isinstance(raw, str | int) and not isinstance(raw, bool) else ""
        if isinstance(raw, datetime):  # YAML reads an unquoted time as one
            text = raw.isoformat()
        if text in ("earliest", "latest") or text.isdecimal():
            return text
        if _is_time(text) or _is_age(text) or _is_offsets(text):
            return text
        raise ValueError(
            'earliest, latest, a time such as 2025-07-18T20:00:00Z, 2h (ago), or {"0": 12}'
        )

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class PartitionSpans:
    """Some partitions, such as `0-5,7`; empty for all. Written in order and without overlap."""

    def parse(self, raw: object) -> str:
        text = str(raw).strip() if isinstance(raw, str | int) and not isinstance(raw, bool) else "-"
        spans = [self._span(part.strip()) for part in text.split(",")] if text else []
        return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in _joined(spans))

    def show(self, value: object) -> str:
        return str(value)

    def _span(self, text: str) -> tuple[int, int]:
        found = _SPAN.fullmatch(text)
        first = int(found[1]) if found else 0
        last = int(found[2] or found[1]) if found else -1
        if last < first:
            raise ValueError("partitions such as 0-5,7")
        return first, last


@dataclass(frozen=True, slots=True)
class StoreList:
    """One store or several: `delta:///path`, `etcd://host:port`, …; commas between them.

    A comma before something without a scheme belongs to the address: `etcd://a:2379,b:2379`.
    """

    def parse(self, raw: object) -> tuple[str, ...]:
        items = _BETWEEN_STORES.split(raw) if isinstance(raw, str) else raw
        if not isinstance(items, list | tuple):
            raise ValueError(_STORES)
        stores = tuple(str(item).strip() for item in items)
        known = all(_STORE_SCHEME.match(s) and s.isprintable() for s in stores)
        if not stores or not known or len(set(stores)) < len(stores):
            raise ValueError(_STORES)
        return stores

    def show(self, value: object) -> str:
        return ", ".join(value) if isinstance(value, tuple) else str(value)


_STORES: Final = "stores such as delta:///var/tables, s3://bucket/prefix or etcd://host, each once"


@dataclass(frozen=True, slots=True)
class Properties:
    """`key=value` pairs: a list of such texts, or a mapping in the file."""

    def parse(self, raw: object) -> Pairs:
        if isinstance(raw, Mapping):
            pairs = [(str(key), _plain(value)) for key, value in raw.items()]
        else:
            items = [raw] if isinstance(raw, str) else raw
            if not isinstance(items, list | tuple):
                raise ValueError(_PAIRS)
            parts = [str(item).partition("=") for item in items]
            pairs = [(key.strip(), value.strip()) for key, sign, value in parts if sign]
            if len(pairs) != len(parts):
                raise ValueError(_PAIRS)
        if not all(_KEY.fullmatch(key) for key, _ in pairs):
            raise ValueError(_PAIRS)
        return tuple(dict(pairs).items())

    def show(self, value: object) -> str:
        pairs = value if isinstance(value, tuple) else ()
        return ", ".join(f"{key}={text}" for key, text in pairs)


_PAIRS: Final = "key=value, such as spark.executor.memory=2g"


def _plain(value: object) -> str:
    """A value of the file as Spark wants it: true, not True."""
    found = value.value if isinstance(value, Entry) else value
    return json.dumps(found) if isinstance(found, bool | int | float) else str(found)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in the fewest spans."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_age(text: str) -> bool:
    try:
        parse_duration_ms(text)
    except ValueError:
        return False
    return True


def _is_offsets(text: str) -> bool:
    try:
        said = json.loads(text)
    except ValueError:
        return False
    return isinstance(said, dict) and all(
        key.isdecimal() and isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
        for key, offset in said.items()
    )
