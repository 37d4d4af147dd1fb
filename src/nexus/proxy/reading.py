"""Bodies into messages: one as JSON or as raw bytes, many as a JSON array or as lines."""

from __future__ import annotations

from base64 import b64decode
from itertools import repeat
from time import time_ns
from typing import Any, Final

import orjson

from nexus.proxy.errors import BodyTooLarge, NotAcceptable
from nexus.proxy.http import JSON
from nexus.proxy.messages import Message
from nexus.web.problems import BadParameter
from nexus.wire.records import Header

MESSAGES_MAX: Final = 100_000
CONTENT_TYPE: Final = "content-type"
NDJSON: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl")
_IS_JSON: Final = ((CONTENT_TYPE, JSON.encode()),)
_FIELDS: Final = frozenset(
    {"payload", "payload_base64", "key", "headers", "partition", "timestamp"}
)
_HEADERS_MAX: Final = 100
_dumps = orjson.dumps


def kind_of(content_type: str | None) -> str:
    """The media type without its parameters; JSON where nothing is said."""
    return (content_type or JSON).partition(";")[0].strip().lower()


def single(
    body: bytes, content_type: str | None, key: str | None, partition: int | None
) -> Message:
    """The message of `POST /produce`."""
    kind = kind_of(content_type)
    now_ms = time_ns() // 1_000_000
    # curl says this of whatever it sends with -d; it means nothing.
    if kind in (JSON, "application/x-www-form-urlencoded"):
        message = _message(_parsed(body), now_ms)
        if key is not None:
            message = message._replace(key=key.encode())
        return message if partition is None else message._replace(partition=partition)
    headers: tuple[Header, ...] = ((CONTENT_TYPE, (content_type or "").encode("latin-1")),)
    return Message(body, None if key is None else key.encode(), headers, now_ms, partition)


def many(body: bytes, content_type: str | None) -> list[Message]:
    """The messages of `POST /produce/batch`."""
    kind = kind_of(content_type)
    if kind in NDJSON:
        items = [_parsed(line, at) for at, line in enumerate(body.split(b"\n")) if line.strip()]
    elif kind in (JSON, "application/x-www-form-urlencoded"):
        items = _parsed(body)
        if not isinstance(items, list):
            raise BadParameter('expected an array of {"payload": …}')
    else:
        raise NotAcceptable(f"found {kind[:100]}, expected {JSON} or {NDJSON[0]}")
    if not items:
        raise BadParameter("there are no messages")
    if len(items) > MESSAGES_MAX:
        raise BodyTooLarge(f"a request has at most {MESSAGES_MAX} messages")
    now_ms = time_ns() // 1_000_000
    plain = _plain(items, now_ms)
    if plain is not None:
        return plain
    return [_message(item, now_ms, at) for at, item in enumerate(items)]


def _plain(items: list[Any], now_ms: int) -> list[Message] | None:
    """All messages in one go, where each is a payload and nothing else, as most are."""
    try:
        if set(map(len, items)) != {1}:
            return None
        values = [_dumps(item["payload"]) for item in items]
    except (KeyError, TypeError):
        return None  # which one is at fault is found by looking at each
    columns = (values, repeat(None), repeat(_IS_JSON), repeat(now_ms), repeat(None))
    return list(map(Message._make, zip(*columns, strict=False)))


def _parsed(text: bytes, at: int | None = None) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        where = "the body" if at is None else f"line {at + 1}"
        raise BadParameter(f"{where} is not JSON: {error}") from None


def _message(item: Any, now_ms: int, at: int | None = None) -> Message:
    """One message from `{"payload": …}`, with more where it says more."""
    if type(item) is not dict or ("payload" in item) == ("payload_base64" in item):
        raise BadParameter(f'{_where(at)} expected {{"payload": …}}')
    if len(item) == 1 and "payload" in item:
        return Message(_dumps(item["payload"]), None, _IS_JSON, now_ms)
    return _full_message(item, now_ms, at)


def _full_message(item: dict[str, Any], now_ms: int, at: int | None) -> Message:
    key = item.get("key")
    if key is not None and not isinstance(key, str):
        raise BadParameter(f"{_where(at)} key: expected text")
    partition = item.get("partition")
    if partition is not None and (type(partition) is not int or partition < 0):
        raise BadParameter(f"{_where(at)} partition: expected a number")
    timestamp = item.get("timestamp", now_ms)
    if type(timestamp) is not int or not 0 <= timestamp < 1 << 62:
        raise BadParameter(f"{_where(at)} timestamp: expected milliseconds since 1970")
    if not item.keys() <= _FIELDS:
        unknown = min(item.keys() - _FIELDS)
        raise BadParameter(f"{_where(at)} {unknown[:100]}: is not known here")
    is_json = "payload" in item
    plain = _IS_JSON if is_json else ()
    headers = plain if "headers" not in item else _headers(item["headers"], plain, at)
    return Message(
        _dumps(item["payload"]) if is_json else _unpacked(item["payload_base64"], at),
        None if key is None else _encoded(key, at),
        headers,
        timestamp,
        partition,
    )


def _unpacked(text: Any, at: int | None) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise BadParameter(f"{_where(at)} payload_base64: expected base64") from None


def _headers(found: Any, plain: tuple[Header, ...], at: int | None) -> tuple[Header, ...]:
    if not isinstance(found, dict) or len(found) > _HEADERS_MAX:
        raise BadParameter(
            f"{_where(at)} headers: expected at most {_HEADERS_MAX} names with texts"
        )
    headers = []
    for name, value in found.items():
        if not isinstance(value, str):
            raise BadParameter(f"{_where(at)} headers: {name[:100]}: expected text")
        headers.append((name, _encoded(value, at)))
    if any(name == CONTENT_TYPE for name, _ in headers):
        return tuple(headers)
    return (*plain, *headers)


def _encoded(text: str, at: int | None) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadParameter(f"{_where(at)} a text is not UTF-8") from None


def _where(at: int | None) -> str:
    return "the message:" if at is None else f"message {at}:"
