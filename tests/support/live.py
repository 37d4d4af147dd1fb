"""Clients of the live stream: what they were given, as events; and a queue that a test makes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from nexus.gateway.live.columns import live_columns
from nexus.queue.port import Received
from nexus.telemetry.codec import ARROW_TYPE
from nexus.telemetry.reading import encoded
from support.published import arrow_messages
from support.readings import readings


class Event(NamedTuple):
    """One server-sent event; a comment has the name "" and no data."""

    name: str
    id: str
    data: Any

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The readings of an event, one by one."""
        names = list(self.data)
        return [dict(zip(names, row, strict=True)) for row in zip(*self.data.values(), strict=True)]


def parsed(chunk: bytes) -> Event:
    """One chunk of a stream, which must be one whole event."""
    assert chunk.endswith(b"\n\n"), chunk
    assert chunk.count(b"\n\n") == 1, chunk
    fields: dict[str, str] = {}
    for line in chunk.decode().splitlines():
        if line and not line.startswith(":"):
            name, _, text = line.partition(": ")
            assert name not in fields, chunk
            fields[name] = text
    data = json.loads(fields["data"], parse_constant=_refuse) if "data" in fields else None
    return Event(fields.get("event", ""), fields.get("id", ""), data)


def _refuse(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


class Client:
    """Takes events as fast as they come, in a task; `seen` is what it was given."""

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        self.seen: list[Event] = []
        self.times: list[float] = []
        self._events = events
        self._task = asyncio.create_task(self._take())

    async def _take(self) -> None:
        async for chunk in self._events:
            self.times.append(time.time())
            self.seen.append(parsed(chunk))

    def named(self, name: str) -> list[Event]:
        return [event for event in self.seen if event.name == name]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for event in self.named("readings") for row in event.rows]

    @property
    def last_id(self) -> str:
        """What a browser would send when it comes again."""
        return next((event.id for event in reversed(self.seen) if event.id), "")

    async def until(self, wanted: Callable[[], object], what: str, within: float = 10.0) -> None:
        deadline = time.monotonic() + within
        while not wanted():
            if self._task.done() and not self._task.cancelled():
                self._task.result()
            assert time.monotonic() < deadline, f"{what}: {[e._replace(data=0) for e in self.seen]}"
            await asyncio.sleep(0.005)

    async def until_rows(self, count: int, within: float = 10.0) -> None:
        await self.until(lambda: len(self.rows) >= count, f"{count} readings", within)

    async def until_place(self) -> None:
        """Until it has a place in the queue: what comes from now on it will see."""
        await self.until(lambda: self.last_id, "a place")

    async def ended(self, within: float = 10.0) -> None:
        async with asyncio.timeout(within):
            await self._task

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        close: Any = self._events
        await close.aclose()


def source_rows(*rows: Mapping[str, object]) -> pa.Table:
    """Readings as a source says them; the text is encoded, as decoded messages have it."""
    table = readings(*rows)
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(at, field.name, encoded(table.column(at)))
    return table


def live_rows(*rows: Mapping[str, object]) -> pa.Table:
    """Readings as the live stream holds them."""
    return live_columns(source_rows(*rows), time.time_ns() // 1000)


def shown(table: pa.Table) -> list[dict[str, Any]]:
    """Live readings as people know them, without their quotes."""
    return [
        {name: json.loads(x) if isinstance(x, str) else x for name, x in row.items()}
        for row in table.to_pylist()
    ]


def received(
    *rows: Mapping[str, object], partition: int = 0, offset: int = 0, per_message: int = 10_000
) -> list[Received]:
    """Messages with these readings, as a tail or a reader gives them."""
    messages = arrow_messages(readings(*rows), per_message)
    return [
        message(value or b"", partition, offset + number, ARROW_TYPE)
        for number, (value, _) in enumerate(messages)
    ]


def message(value: bytes, partition: int = 0, offset: int = 0, kind: str = ARROW_TYPE) -> Received:
    return Received(partition, offset, 0, None, value, (("content-type", kind.encode()),))


class ListTail:
    """A tail of batches that a test puts in; `at` is where each partition goes on."""

    def __init__(self, at: Mapping[int, int]) -> None:
        self.at = dict(at)
        self.skipped, self.problem, self.is_closed = 0, "", False
        self.batches: list[Sequence[Received]] = []

    def positions(self) -> Mapping[int, int]:
        return dict(self.at)

    def poll(self, timeout_s: float) -> Sequence[Received]:
        if not self.batches:
            time.sleep(min(timeout_s, 0.01))
            return ()
        batch = self.batches.pop(0)
        self.at |= {message.partition: message.offset + 1 for message in batch}
        return batch

    def close(self) -> None:
        self.is_closed = True
