"""Events over ASGI: the stream ends with its client, and no client holds it for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from nexus.web.event_stream import Message, event_stream


class Events(AsyncIterator[bytes]):
    """Events that a test puts in; None ends them."""

    def __init__(self, *events: bytes | None) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.is_closed = False
        for event in events:
            self.queue.put_nowait(event)

    async def __anext__(self) -> bytes:
        event = await self.queue.get()
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        self.is_closed = True


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def test_events_are_sent_as_they_are_and_the_response_ends_with_them() -> None:
    async def story() -> None:
        events, sent = Events(b"one", b"two", None), list[Message]()

        async def send(message: Message) -> None:
            sent.append(message)

        await event_stream(events, never, send)
        start, *bodies = sent
        headers = dict(start["headers"])
        assert start["status"] == 200
        assert headers[b"content-type"].startswith(b"text/event-stream")
        assert headers[b"cache-control"] == b"no-store"
        assert [(m["body"], m["more_body"]) for m in bodies] == [
            (b"one", True),
            (b"two", True),
            (b"", False),
        ]
        assert events.is_closed

    asyncio.run(story())


def test_a_client_that_goes_ends_its_events() -> None:
    async def story() -> None:
        events, gone = Events(b"one"), asyncio.Event()

        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message.get("body") == b"one":
                gone.set()

        async with asyncio.timeout(5):
            await event_stream(events, receive, send)
        assert events.is_closed

    asyncio.run(story())


def test_a_client_that_takes_nothing_is_let_go() -> None:
    async def story() -> None:
        events = Events(b"one")

        async def send(message: Message) -> None:
            if "body" in message:
                await asyncio.Event().wait()

        async with asyncio.timeout(5):
            await event_stream(events, never, send, stalled_s=0.05)
        assert events.is_closed

    asyncio.run(story())
