"""Cursors: where a page ended, so that the next one begins after it, whatever arrived meanwhile.

A cursor holds the key of the last row, the span and resolution that the first page settled on
(so that `now-1h` means the same hour on every page), and a hash of the question: the cursor of
another question is refused. Its text is opaque, safe in addresses, and has a version.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal

import orjson

from nexus.web.problems import BadParameter

VERSION: Final = 1
LENGTH_MAX: Final = 4096
Kind = Literal["moment", "whole", "text"]
_INT64: Final = 2**63
_DAMAGED: Final = "is damaged; hand back next_cursor as it was given"


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row's key, and what its question settled on."""

    key: tuple[Any, ...]
    pinned: tuple[int, int, str] | None = None  # start, end, resolution


def question_hash(path: str, asked: Mapping[str, object]) -> str:
    """A short name for a question: equal for equal filters, times as written, and order."""
    said = orjson.dumps([path, sorted((k, _plain(v)) for k, v in asked.items())])
    return blake2b(said, digest_size=9).hexdigest()


def encode_cursor(cursor: Cursor, question: str) -> str:
    """The text that a client hands back."""
    content = orjson.dumps([VERSION, question, cursor.key, cursor.pinned])
    checked = blake2b(content, digest_size=4).digest() + content
    return urlsafe_b64encode(checked).decode().rstrip("=")


def decode_cursor(text: str, question: str, kinds: Sequence[Kind]) -> Cursor:
    """The cursor in a text; BadParameter when it is none, or that of another question."""
    version, asked, key, pinned = _parts(text)
    if version != VERSION:
        raise BadParameter.of("cursor", "is of another version; begin again without it")
    if asked != question:
        raise BadParameter.of(
            "cursor",
            "belongs to another question; keep path, filters, times and order as they were,"
            " or begin again without it",
        )
    fits = isinstance(key, list) and len(key) == len(kinds)
    if not fits or not all(_fits(part, kind) for part, kind in zip(key, kinds, strict=True)):
        raise BadParameter.of("cursor", _DAMAGED)
    return Cursor(tuple(key), _pinned(pinned))


def _parts(text: str) -> list[Any]:
    damaged = BadParameter.of("cursor", _DAMAGED)
    if len(text) > LENGTH_MAX or not text.isascii():
        raise damaged
    try:
        checked = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        content = checked[4:]
        parts = orjson.loads(content)
    except (BadBase64, ValueError):
        raise damaged from None
    whole = blake2b(content, digest_size=4).digest() == checked[:4]
    if not whole or not isinstance(parts, list) or len(parts) != 4:
        raise damaged
    return parts


def _fits(part: object, kind: Kind) -> bool:
    if kind == "text":
        return isinstance(part, str)
    return isinstance(part, int) and not isinstance(part, bool) and -_INT64 <= part < _INT64


def _pinned(said: object) -> tuple[int, int, str] | None:
    if said is None:
        return None
    if isinstance(said, list) and len(said) == 3:
        start, end, resolution = said
        if _fits(start, "whole") and _fits(end, "whole") and isinstance(resolution, str):
            return start, end, resolution
    raise BadParameter.of("cursor", _DAMAGED)


def _plain(value: object) -> object:
    if isinstance(value, list | tuple | frozenset | set):
        return sorted(map(str, value))
    return value if value is None else str(value)
