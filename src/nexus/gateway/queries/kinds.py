"""Kinds of parameters: times, lists with commas, text. Each says in the API's description what
it takes, and to the client what would have been right.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from nexus.gateway.times import PATTERN, parse_moment
from nexus.settings.units import parse_duration_ms
from nexus.store.port import SUMMARY_GROUPS

TEXT_MAX: Final = 256
VALUES_MAX: Final = 100
INTERVAL_MAX_MS: Final = 60_000
_PART: Final = re.compile(r"(?:[^,\\]|\\.|\\$)+", re.DOTALL)  # between commas that part values
_ESCAPED: Final = re.compile(r"\\(.?)", re.DOTALL)


def _time(text: str) -> str:
    parse_moment(text)
    return text.strip()


def _plain(text: str) -> str:
    if "\0" in text:
        raise ValueError("text cannot have a NUL in it")
    return text


def _split(given: Any) -> Any:
    r"""Values of a parameter that was given several times, or with commas, or both.

    `\,` is a comma inside of a value, `\\` a backslash, and `\` alone the empty text.
    """
    if not isinstance(given, list | tuple):
        return given
    if len(given) > VALUES_MAX:
        raise ValueError(f"expected at most {VALUES_MAX} values")
    parts = (part.strip() for text in given for part in _PART.findall(str(text)))
    return [_ESCAPED.sub(r"\1", part) for part in parts if part]


def _each(given: list[str]) -> list[str]:
    if any(len(text) > TEXT_MAX for text in given):
        raise ValueError(f"expected values of at most {TEXT_MAX} characters")
    return [_plain(text) for text in given]


def _groups(given: list[str]) -> list[str]:
    unknown = [name for name in given if name not in SUMMARY_GROUPS]
    if unknown:
        raise ValueError(f"found {unknown[0][:TEXT_MAX]!r}, expected {', '.join(SUMMARY_GROUPS)}")
    return list(dict.fromkeys(given))


def _interval(text: str) -> str:
    try:
        fits = parse_duration_ms(text) <= INTERVAL_MAX_MS
    except ValueError:
        fits = False
    if not fits:
        raise ValueError("expected a duration of at most 60s, such as 500ms or 2s")
    return text


Time = Annotated[str, AfterValidator(_time), Field(json_schema_extra={"pattern": PATTERN})]
_TEXT: Final = {"items": {"type": "string", "maxLength": TEXT_MAX}}
Values = Annotated[
    list[str],
    BeforeValidator(_split),
    AfterValidator(_each),
    Field(max_length=VALUES_MAX, json_schema_extra=_TEXT),
]
Texts = Annotated[
    list[str],
    AfterValidator(_each),
    Field(max_length=VALUES_MAX, json_schema_extra=_TEXT),
]
Groups = Annotated[
    list[str],
    BeforeValidator(_split),
    AfterValidator(_groups),
    Field(json_schema_extra={"items": {"type": "string", "enum": list(SUMMARY_GROUPS)}}),
]
Interval = Annotated[
    str,
    AfterValidator(_interval),
    Field(json_schema_extra={"pattern": r"^(\d{1,4}ms|\ds|[1-5]\ds)$"}),
]
