"""Fills a list or a stream, each message once: its place in the queue is stored in the same step.

Places lie in `KEY:nexus-export`. So an export that was cut off goes on where Redis says, and two at
once are found out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from nexus.queue.port import Headers
from nexus.queue.redis.client import RedisClient
from nexus.queue.redis.entries import fields_of
from nexus.queue.redis.lock import Taken
from nexus.telemetry.content import ARROW_TYPE
from nexus.telemetry.errors import TelemetryError

LOT_MESSAGES: Final = 500
LOT_BYTES: Final = 4 << 20
_ARROW: Final = ARROW_TYPE.encode()
_JSON_HEADERS: Final[Headers] = (("content-type", b"application/json"),)


class Outgoing(NamedTuple):
    """A message on its way to Redis, and what comes after it in the queue."""

    value: bytes
    key: bytes | None
    headers: Headers
    next: int = 0


class RedisTarget:
    """One list or stream. `readings` writes the readings of an Arrow message as JSON, one each."""

    def __init__(self, client: RedisClient, *, readings: bool = False) -> None:
        self.client = client
        self._readings = readings
        self._key = client.url.name.encode()
        self._places = self._key + b":nexus-export"
        self._seen = self._places + b":seen"

    def place(self, name: bytes) -> int | None:
        """How far it was filled from a place of that name."""
        said = self.client.ask("HGET", self._places, name)
        return None if said is None else int(said)

    def put(self, name: bytes, place: int | None, messages: Iterable[Outgoing], after: int) -> None:
        """Add messages and move the place on, or nothing of it; Taken if it was moved already."""
        expected = None if place is None else b"%d" % place
        commands = [*self._commands(messages), ["HSET", self._places, name, after]]
        question = ["HGET", self._places, name]
        if not self.client.all_or_nothing(self._places, (question, expected), commands):
            raise Taken(f"redis {self.client.url}: another export fills it; one at a time")

    def put_unseen(self, lots: Sequence[tuple[bytes, Sequence[Outgoing]]]) -> int:
        """Add those of whose marks none is remembered, and remember them; how many messages."""
        marks = [mark for mark, _ in lots]
        question = ["SMISMEMBER", self._seen, *marks]
        known = self.client.ask(*question)
        fresh = [lot for (_, lot), is_known in zip(lots, known, strict=True) if not is_known]
        commands = [c for lot in fresh for c in self._commands(lot)]
        commands.append(["SADD", self._seen, *marks])
        if not self.client.all_or_nothing(self._seen, (question, known), commands):
            raise Taken(f"redis {self.client.url}: another export fills it; one at a time")
        return sum(map(len, fresh))

    def forget(self, marks: Sequence[bytes]) -> None:
        """These will not come again."""
        self.client.ask("SREM", self._seen, *marks)

    def _commands(self, messages: Iterable[Outgoing]) -> Iterator[list[Any]]:
        whole = (one for message in messages for one in self._as_written(message))
        if self.client.url.kind == "stream":
            for message in whole:
                yield ["XADD", self._key, "*", *self._fields(message)]
            return
        push = "RPUSH" if self.client.url.end == "left" else "LPUSH"
        if values := [message.value for message in whole]:
            yield [push, self._key, *values]

    def _fields(self, message: Outgoing) -> Iterator[bytes]:
        for pair in fields_of(message.value, message.key, message.headers, self.client.url):
            yield from pair

    def _as_written(self, message: Outgoing) -> Sequence[Outgoing]:
        is_arrow = dict(message.headers).get("content-type") == _ARROW
        return _readings(message) if self._readings and is_arrow else (message,)


def _readings(message: Outgoing) -> Sequence[Outgoing]:
    """A message for each reading; one that cannot be read stays as it is."""
    from nexus.telemetry.arrow_codec import decode_arrow  # noqa: PLC0415 - they take long to load
    from nexus.telemetry.json_codec import encode_json  # noqa: PLC0415

    try:
        table = decode_arrow(message.value)
    except TelemetryError:
        return (message,)
    keys = table.column("uuid").to_pylist()
    return [
        Outgoing(value, key.encode(), _JSON_HEADERS)
        for value, key in zip(encode_json(table), keys, strict=True)
    ]


def lots_of(messages: Iterable[Outgoing]) -> Iterator[list[Outgoing]]:
    """Neighbours that go in one step."""
    lot: list[Outgoing] = []
    size = 0
    for message in messages:
        lot.append(message)
        size += len(message.value)
        if len(lot) >= LOT_MESSAGES or size >= LOT_BYTES:
            yield lot
            lot, size = [], 0
    if lot:
        yield lot
