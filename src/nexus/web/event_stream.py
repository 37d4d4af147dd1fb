"""A client's events over ASGI, without a framework.

A client that takes nothing for a minute is let go: it can come back with its last event's id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MEDIA_TYPE: Final = "text/event-stream"
# No cache may keep it, no proxy may hold it back.
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
STALLED_S: Final = 60.0


async def event_stream(
    events: AsyncIterator[bytes],
    receive: Receive,
    send: Send,
    *,
    headers: MutableMapping[str, str] | None = None,
    stalled_s: float = STALLED_S,
) -> None:
    """Send the whole response; ends when the client goes or the events end, and closes them."""
    sending = asyncio.create_task(
        _send_all(events, send, {**HEADERS, **(headers or {})}, stalled_s)
    )
    leaving = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
    if not sending.cancelled() and (error := sending.exception()) is not None:
        raise error


async def _send_all(
    events: AsyncIterator[bytes], send: Send, headers: MutableMapping[str, str], stalled_s: float
) -> None:
    said = {"content-type": f"{MEDIA_TYPE}; charset=utf-8", **headers}
    pairs = [
        (name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in said.items()
    ]
    await send({"type": "http.response.start", "status": 200, "headers": pairs})
    with suppress(TimeoutError):
        async for event in events:
            async with asyncio.timeout(stalled_s):
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
