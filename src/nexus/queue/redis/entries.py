"""What is in Redis as messages of a queue, and the other way round.

The element of a list is a payload. So is the one field of a stream's entry, the one named `payload`
(as an export writes it), or the one that the address names; fields without any of these are a JSON
object together. `redis-id` in a message's headers is the same each time that it is sent.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from nexus.queue.port import Headers, Message
from nexus.queue.redis.url import RedisUrl
from nexus.telemetry.content import ARROW_TYPE, JSON_TYPE

ID: Final = "redis-id"
PAYLOAD: Final = b"payload"
KEY: Final = b"key"
HEADER: Final = b"header:"
_SOURCE: Final = ("source", b"redis")
_JSON: Final = ("content-type", JSON_TYPE.encode())
_ARROW: Final = ("content-type", ARROW_TYPE.encode())
_RAW: Final = ("content-type", b"application/octet-stream")
_ARROW_BEGINS: Final = b"\xff\xff\xff\xff"
_UUIDS: Final = ("GPU-", "MIG-")
# What the fields of a reading are that is no text in JSON.
_NUMBERS: Final = frozenset({"value"})
_OBJECTS: Final = frozenset({"labels"})

Fields = tuple[tuple[bytes, bytes], ...]


class Entry(NamedTuple):
    """An element of a list (whose one field has no name), or an entry of a stream."""

    id: bytes
    fields: Fields

    @property
    def size(self) -> int:
        return sum(len(name) + len(value) for name, value in self.fields)


def message_of(entry: Entry, url: RedisUrl) -> Message:
    """The message that an entry is."""
    said = dict(entry.fields)
    value = _payload(entry, said, url)
    kind, parsed = _kind_of(value)
    headers: Headers = ((ID, entry.id), _SOURCE, kind)
    if PAYLOAD in said and len(said) > 1:
        own = [pair for pair in _own_headers(entry) if pair[0] not in (ID, "source")]
        told = headers[:2] if any(name == "content-type" for name, _ in own) else headers
        headers = (*told, *own)
    return Message(value, _key(entry, said, parsed, url), headers)


def fields_of(value: bytes, key: bytes | None, headers: Headers, url: RedisUrl) -> Fields:
    """A message as the fields of a stream's entry."""
    if url.form == "fields" and (spread := _spread(value)) is not None:
        return spread
    made = [(url.payload.encode() or PAYLOAD, value)]
    if key is not None:
        made.append((KEY, key))
    made += [(HEADER + name.encode(), content) for name, content in headers if name != ID]
    return tuple(made)


def _payload(entry: Entry, said: dict[bytes, bytes], url: RedisUrl) -> bytes:
    named = said.get(url.payload.encode()) if url.payload else None
    if named is not None:
        return named
    if len(entry.fields) == 1:
        return entry.fields[0][1]
    return said[PAYLOAD] if PAYLOAD in said else _merged(entry.fields)


def _merged(fields: Fields) -> bytes:
    """Fields as one JSON object; a field that is there twice has a list of its values."""
    merged: dict[str, Any] = {}
    seen: dict[str, list[Any]] = {}
    for name, content in fields:
        text = name.decode("utf-8", "backslashreplace")
        seen.setdefault(text, []).append(_json_value(text, content))
    for text, values in seen.items():
        merged[text] = values[0] if len(values) == 1 else values
    return json.dumps(merged, ensure_ascii=False).encode()


def _json_value(name: str, content: bytes) -> Any:
    """Text as text; a reading's value is a number and its labels are an object, if they can be."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}
    if name in _NUMBERS | _OBJECTS:
        parsed = _parsed(content)
        if name in _NUMBERS and isinstance(parsed, int | float) and not isinstance(parsed, bool):
            return parsed
        if name in _OBJECTS and isinstance(parsed, dict):
            return parsed
    return text


def _kind_of(value: bytes) -> tuple[tuple[str, bytes], Any]:
    """A payload's content type; and what it says, if it is JSON."""
    if value.startswith(_ARROW_BEGINS):
        return _ARROW, None
    if value.lstrip()[:1] == b"{":
        return _JSON, _parsed(value)
    return _RAW, None


def _key(entry: Entry, said: dict[bytes, bytes], parsed: Any, url: RedisUrl) -> bytes:
    """By what the address names, or the key of an export; else by the GPU; else by the id."""
    members = parsed if isinstance(parsed, dict) else {}
    if url.by:
        if url.by.encode() in said:
            return said[url.by.encode()]
        if isinstance(members.get(url.by), str | int):
            return str(members[url.by]).encode()
    if KEY in said and PAYLOAD in said:
        return said[KEY]
    for name in ("uuid", "gpu_id"):  # some producers have the uuid in the latter
        gpu = members.get(name)
        if isinstance(gpu, str) and gpu.startswith(_UUIDS):
            return gpu.encode()
    return entry.id


def _own_headers(entry: Entry) -> Iterator[tuple[str, bytes]]:
    for name, content in entry.fields:
        if name.startswith(HEADER):
            yield name.removeprefix(HEADER).decode("utf-8", "backslashreplace"), content


def _spread(value: bytes) -> Fields | None:
    """The members of a JSON object as fields; None for what is no object, or an empty one."""
    parsed = _parsed(value)
    if not isinstance(parsed, dict) or not parsed:
        return None
    return tuple((name.encode(), _text(member)) for name, member in parsed.items())


def _text(member: Any) -> bytes:
    return member.encode() if isinstance(member, str) else orjson.dumps(member)


def _parsed(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def element_entries(first: int, elements: Sequence[bytes]) -> list[Entry]:
    """Elements of a list, numbered."""
    return [Entry(b"%d" % (first + at), ((b"", value),)) for at, value in enumerate(elements)]
