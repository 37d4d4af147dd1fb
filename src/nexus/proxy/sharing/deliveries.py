"""Messages out of what a broker answered, as events and documents for HTTP clients."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import orjson

from nexus.wire.batch import iter_headers
from nexus.wire.records import Header, Record, iter_records

CONTENT_TYPE: Final = "content-type"
JSON: Final = "application/json"
_BYTES: Final = "surrogateescape"  # how names that are no text are kept


class Delivered(NamedTuple):
    """A message that is held for somebody."""

    partition: int
    offset: int
    attempt: int
    record: Record

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


def acquired(part: Any) -> list[Delivered]:
    """The messages of one partition's answer that are held: others may lie beside them."""
    attempts = {
        offset: run.delivery_count
        for run in part.acquired_records
        for offset in range(run.first_offset, run.last_offset + 1)
    }
    if not attempts or not part.records:
        return []
    partition, buffer = part.partition_index, memoryview(part.records)
    return [
        Delivered(partition, record.offset, attempts[record.offset], record)
        for at, header in iter_headers(buffer)
        for record in iter_records(buffer[at : at + header.size])
        if record.offset in attempts
    ]


def missing(part: Any, found: list[Delivered]) -> list[int]:
    """Offsets that are held though no message is there: compaction took it."""
    runs = [range(run.first_offset, run.last_offset + 1) for run in part.acquired_records]
    if len(found) == sum(map(len, runs)):
        return []
    there = {delivered.offset for delivered in found}
    return [offset for run in runs for offset in run if offset not in there]


def events(taken: Iterable[Delivered], topic: str, member: str) -> bytes:
    """Messages as server-sent events."""
    texts = [f"id: {name}\ndata: {text}\n\n" for name, text in _told(taken, topic, member)]
    return "".join(texts).encode()


def documents(taken: Iterable[Delivered], topic: str, member: str) -> list[orjson.Fragment]:
    """Messages as JSON."""
    return [orjson.Fragment(text) for _, text in _told(taken, topic, member)]


def _told(taken: Iterable[Delivered], topic: str, member: str) -> Iterator[tuple[str, str]]:
    """What a client is told of messages: the id of each, and all of it, as JSON on one line."""
    topic_text = _dumped(topic)
    known: dict[tuple[Header, ...], tuple[str, bool]] = {}  # most have the same headers
    for partition, offset, attempt, (_, timestamp, key, value, headers) in taken:
        found = known.get(headers)
        if found is None:
            found = known[headers] = _headers(headers)
        headers_text, is_json = found
        name = f"{partition}-{offset}-{member}"
        payload = _payload(value or b"", is_json=is_json)
        yield (
            name,
            f'{{"id":"{name}","topic":{topic_text},"partition":{partition},"offset":{offset},'
            f'"key":{"null" if key is None else _dumped(_text(key))},"headers":{headers_text},'
            f'"timestamp":{timestamp},"attempt":{attempt},{payload}}}',
        )


def _headers(headers: tuple[Header, ...]) -> tuple[str, bool]:
    """All headers as JSON, and whether they say that the payload is."""
    said = {_text(name.encode("utf-8", _BYTES)): _text(value or b"") for name, value in headers}
    kind = said.get(CONTENT_TYPE, JSON).partition(";")[0].strip()
    return _dumped(said), kind == JSON


def _payload(value: bytes, *, is_json: bool) -> str:
    if is_json:
        try:
            parsed = orjson.loads(value or b"null")
        except orjson.JSONDecodeError:
            pass
        else:
            # What was found to be JSON may stay as it is, unless it would end an event's line.
            is_line = value and b"\n" not in value and b"\r" not in value
            return f'"payload":{value.decode() if is_line else _dumped(parsed)}'
    return f'"payload_base64":"{b64encode(value).decode()}"'


def _dumped(value: object) -> str:
    return orjson.dumps(value).decode()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
