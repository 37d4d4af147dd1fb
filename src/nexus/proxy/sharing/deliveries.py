"""Messages out of what a broker answered, as events and documents for HTTP clients."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from nexus.proxy.sharing.ids import MessageId
from nexus.wire.batch import iter_headers
from nexus.wire.records import Record, iter_records

CONTENT_TYPE: Final = "content-type"


class Delivered(NamedTuple):
    """A message that is held for somebody."""

    partition: int
    offset: int
    attempt: int
    record: Record

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


def acquired(part: Any) -> Iterator[Delivered]:
    """The messages of one partition's answer that are held: others lie in the same batches."""
    attempts = {
        offset: run.delivery_count
        for run in part.acquired_records
        for offset in range(run.first_offset, run.last_offset + 1)
    }
    if not attempts or not part.records:
        return
    buffer = memoryview(part.records)
    for at, header in iter_headers(buffer):
        for record in iter_records(buffer[at : at + header.size]):
            attempt = attempts.get(record.offset)
            if attempt is not None:
                yield Delivered(part.partition_index, record.offset, attempt, record)


def missing(part: Any, found: list[Delivered]) -> list[int]:
    """Offsets that are held though no message is there: compaction took it."""
    there = {delivered.offset for delivered in found}
    return [
        offset
        for run in part.acquired_records
        for offset in range(run.first_offset, run.last_offset + 1)
        if offset not in there
    ]


def content(delivered: Delivered, topic: str, member: str) -> dict[str, object]:
    """What a client is told of a message."""
    record = delivered.record
    headers = {name: _text(value or b"") for name, value in record.headers}
    said: dict[str, object] = {
        "id": str(MessageId(delivered.partition, delivered.offset, member)),
        "topic": topic,
        "partition": delivered.partition,
        "offset": delivered.offset,
        "key": None if record.key is None else _text(record.key),
        "headers": headers,
        "timestamp": record.timestamp,
        "attempt": delivered.attempt,
    }
    kind = headers.get(CONTENT_TYPE, "application/json")
    try:
        if kind.partition(";")[0].strip() == "application/json":
            said["payload"] = orjson.loads(record.value or b"null")
            return said
    except orjson.JSONDecodeError:
        pass
    said["payload_base64"] = b64encode(record.value or b"").decode()
    return said


def event(delivered: Delivered, topic: str, member: str) -> bytes:
    """The message as a server-sent event."""
    said = content(delivered, topic, member)
    name = b"%d-%d-%b" % (delivered.partition, delivered.offset, member.encode())
    return b"id: %b\ndata: %b\n\n" % (name, orjson.dumps(said))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
