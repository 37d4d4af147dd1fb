"""One JSON message by itself: the patient way, for what the bulk parser cannot take.

It accepts a little more (whitespace, times as epoch seconds or with nanoseconds, labels that are
numbers or objects) and says exactly what is wrong with the rest.
"""

import json
import math
import re
from datetime import UTC, datetime
from typing import Final, cast

from nexus.telemetry.json_fields import FIELD_OF, MODEL_LABEL
from nexus.telemetry.labels import canonical_labels

NO_TIME: Final = "timestamp is missing or no time"
NO_NUMBER: Final = "value is no number"
NO_METRIC: Final = "metric_name is missing"

Reading = dict[str, str | float | int]

_KNOWN: Final = frozenset({"timestamp", "ingested", "value", "labels", *FIELD_OF.values()})
_MOMENT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?)?"
    r"\s*([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# The first and the last moment that has a date of four digits.
FIRST_US: Final = -62_135_596_800_000_000
LAST_US: Final = 253_402_300_799_999_999


class _Number:
    """A number as its text, so that a label keeps its digits and a value its sign."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def decode_single(value: bytes) -> Reading | str:
    """The columns of a reading (times in microseconds), or why the message is none."""
    try:
        message = json.loads(value, parse_float=_Number, parse_int=_Number, parse_constant=_Number)
    except (ValueError, RecursionError) as error:
        return f"no JSON: {error}"
    if not isinstance(message, dict):
        return "no JSON object"
    return _reading(cast("dict[str, object]", message))


def _reading(message: dict[str, object]) -> Reading | str:
    timestamp = moment_of(message.get("timestamp"))
    number = _number(message.get("value"))
    ingested = moment_of(message["ingested"]) if message.get("ingested") is not None else timestamp
    texts = {column: _text(message.get(field)) for column, field in FIELD_OF.items()}
    if timestamp is None or ingested is None:
        return NO_TIME
    if number is None:
        return NO_NUMBER
    if not texts["source_metric"]:
        return NO_METRIC
    if message.get("uuid") is None and texts["gpu"].startswith(("GPU-", "MIG-")):
        texts["uuid"], texts["gpu"] = texts["gpu"], ""
    labels = _labels(message)
    if message.get("model") is None:
        texts["model"] = labels.pop(MODEL_LABEL, "")
    reading: Reading = {**texts, "labels": canonical_labels(labels), "timestamp": timestamp}
    try:
        "".join([*texts.values(), cast("str", reading["labels"])]).encode()
    except UnicodeEncodeError:
        return "text with half of a surrogate pair"
    return reading | {"source_value": number, "ingested": ingested}


def _labels(message: dict[str, object]) -> dict[str, str]:
    said = {name: value for name, value in message.items() if name not in _KNOWN}
    labels = message.get("labels")
    if isinstance(labels, dict):
        said |= labels
    elif labels is not None:
        said["labels"] = labels
    return {str(name): _text(value) for name, value in said.items() if value is not None}


def _text(value: object) -> str:
    """Text as it is, a number as it was written, anything else as its JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, _Number):
        return value.text
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_plain
    )


def _plain(number: object) -> float:
    text = cast("_Number", number).text
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _number(value: object) -> float | None:
    if not isinstance(value, _Number):
        return None
    number = float(value.text)
    return number if math.isfinite(number) else None


def moment_of(value: object) -> int | None:
    """A time in microseconds since 1970, or None if it is none."""
    if isinstance(value, _Number):
        seconds = _number(value)
        micros = None if seconds is None else round(seconds * 1_000_000)
    else:
        micros = _parsed(value) if isinstance(value, str) else None
    return micros if micros is not None and FIRST_US <= micros <= LAST_US else None


def _parsed(text: str) -> int | None:
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        return None
    date, hour, minute, second, fraction, zone = found.groups()
    offset = "+00:00" if not zone or zone in "Zz" else zone
    try:
        moment = datetime.fromisoformat(
            f"{date}T{hour or '00'}:{minute or '00'}:{second or '00'}{offset}"
        )
    except ValueError:
        return None
    since = moment - _EPOCH
    whole = since.days * 86_400 + since.seconds
    return whole * 1_000_000 + int((fraction or "0").ljust(6, "0")[:6])
