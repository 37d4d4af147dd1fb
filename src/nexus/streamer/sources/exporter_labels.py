"""A Prometheus label set, parsed once for each distinct text, and the columns that it fills.

The labels of a fleet hardly change from scrape to scrape, so both steps are remembered: in the
steady state a label set costs a dictionary look-up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from nexus.telemetry.labels import split_labels

LabelSet = tuple[tuple[str, str], ...]

REMEMBERED: Final = 16_384  # label sets: a thousand hosts of eight GPUs, twice
LABELS_MAX: Final = 256  # in one set; more is an attack, not a GPU

STRING: Final = r'"(?:[^"\\]|\\.)*+"'
_LABEL: Final = re.compile(
    rf"\s*([a-zA-Z_][a-zA-Z0-9_]*|{STRING})\s*=\s*({STRING})\s*(?:,|$)", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "\\": "\\", '"': '"'}


@lru_cache(maxsize=REMEMBERED)
def parse_labels(text: str) -> LabelSet | None:
    """The pairs of `a="1",b="2"` in their order, or None if it is no label set."""
    pairs: dict[str, str] = {}
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _LABEL.match(text, at)
        if match is None or len(pairs) >= LABELS_MAX:
            return None
        name = match[1] if match[1][0] != '"' else unescape(match[1][1:-1])
        if name in pairs:
            return None
        pairs[name] = unescape(match[2][1:-1])
        at = match.end()
    return tuple(pairs.items())


def unescape(text: str) -> str:
    r"""`\\`, `\"` and `\n` as what they stand for; any other backslash is itself."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), text)


@lru_cache(maxsize=REMEMBERED)
def columns_of(labels: LabelSet, host: str) -> Mapping[str, str]:
    """A GPU's labels as a reading's columns; `host` is its name where the labels do not say it."""
    columns = split_labels(dict(labels))
    del columns["source_metric"]  # the line says it
    columns["hostname"] = columns["hostname"] or host
    return columns
