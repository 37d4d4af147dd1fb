"""NATS JetStream by nats-py: publishes with many acknowledgements under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import nats
import uvloop
from nats.js.api import StreamConfig
from nats.js.errors import NotFoundError

from nexus.bench.clients import BenchFailed
from peers.clients.native import NativeReceiver, NativeSender, generator, library
from peers.clients.port import Lanes, Receiver, Sender

_WINDOW = 4000
_PYTHON = f"nats-py {version('nats-py')}"


class NatsClient:
    """A stream for each lane, in files."""

    chunk = 500
    words = f"{generator('nats', _PYTHON)}, {_WINDOW} publishes under way; an ordered push consumer"

    def prepare(self, lanes: Lanes) -> None:
        with _Connection(lanes.address) as connection:
            for name in lanes.names():
                wanted = StreamConfig(name=name, subjects=[name])
                connection.run(connection.js.add_stream(wanted))

    def remove(self, lanes: Lanes) -> None:
        with _Connection(lanes.address) as connection:
            for name in lanes.names():
                connection.run(_delete(connection.js, name))

    def sender(self, lanes: Lanes) -> Sender:
        built = library("nats")
        return NativeSender(built, lanes, _WINDOW) if built else _Sender(lanes)

    def receiver(self, lanes: Lanes, number: int) -> Receiver:
        built = library("nats")
        return NativeReceiver(built, lanes, number) if built else _Receiver(lanes, number)


async def _delete(js: Any, name: str) -> None:
    try:
        await js.delete_stream(name)
    except NotFoundError:
        return


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


class _Connection:
    """A connection on a loop of its own, for callers who have none."""

    def __init__(self, address: str) -> None:
        self._loop = uvloop.new_event_loop()
        self.client = self.run(
            nats.connect(f"nats://{address}", pending_size=256 << 20, allow_reconnect=False)
        )
        self.js: Any = self.client.jetstream(timeout=60, publish_async_max_pending=2 * _WINDOW)

    def run(self, wanted: Any) -> Any:
        return self._loop.run_until_complete(wanted)

    def close(self) -> None:
        self.run(self.client.close())
        # An ordered consumer's own watchmen stay behind.
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self.run(_ended(left))
        self._loop.close()

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Sender:
    def __init__(self, lanes: Lanes) -> None:
        self._connection = _Connection(lanes.address)
        self._subjects = lanes.names()
        self._pending: set[asyncio.Future[Any]] = set()
        self._failures = 0

    def send(self, values: Sequence[bytes], lane: int) -> None:
        self._connection.run(self._send(values, self._subjects[lane]))

    async def _send(self, values: Sequence[bytes], subject: str) -> None:
        js = self._connection.js
        for value in values:
            sent = await js.publish_async(subject, value)
            self._pending.add(sent)
            sent.add_done_callback(self._settled)
            if len(self._pending) >= _WINDOW:
                await self._until(_WINDOW // 2)

    async def _until(self, left: int) -> None:
        while len(self._pending) > left:  # noqa: ASYNC110 - an event an ack would cost more
            await asyncio.sleep(0.0005)

    def _settled(self, sent: asyncio.Future[Any]) -> None:
        self._pending.discard(sent)
        self._failures += sent.exception() is not None

    def rest(self, seconds: float) -> None:
        self._connection.run(asyncio.sleep(seconds))

    def flush(self) -> None:
        self._connection.run(asyncio.wait_for(self._until(0), 60))
        if self._failures:
            raise BenchFailed(f"{self._failures} messages were not acknowledged")

    def close(self) -> None:
        self._connection.close()


class _Receiver:
    def __init__(self, lanes: Lanes, number: int) -> None:
        self._connection = _Connection(lanes.address)
        self._values: list[bytes] = []
        self._came = asyncio.Event()
        names = lanes.names()
        for lane in lanes.of_consumer(number):
            subscribed = self._connection.js.subscribe(
                names[lane], cb=self._take, ordered_consumer=True, pending_bytes_limit=1 << 30
            )
            self._connection.run(subscribed)

    async def _take(self, message: Any) -> None:
        self._values.append(message.data)
        self._came.set()

    def receive(self, wait_s: float) -> list[bytes]:
        self._connection.run(self._wait(wait_s))
        values, self._values = self._values, []
        self._came.clear()
        return values

    async def _wait(self, wait_s: float) -> None:
        try:
            await asyncio.wait_for(self._came.wait(), wait_s)
        except TimeoutError:
            return

    def close(self) -> None:
        self._connection.close()
