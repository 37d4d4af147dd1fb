"""AMQP 0.9.1 by pika on an event loop: quorum queues, publisher confirms, acknowledged reading."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pika
import uvloop
from pika.adapters.asyncio_connection import AsyncioConnection

from nexus.bench.clients import BenchFailed
from peers.clients.native import NativeReceiver, NativeSender, generator, library
from peers.clients.port import Lanes, Receiver, Sender

_WINDOW = 2000
_PYTHON = f"pika {pika.__version__}"
_PREFETCH = 1000
_WAIT_S = 60.0


class AmqpClient:
    """A quorum queue for each lane, by the default exchange."""

    chunk = 200
    words = (
        f"{generator('amqp', _PYTHON)}, {_WINDOW} confirms under way;"
        f" prefetch {_PREFETCH}, acknowledged in groups"
    )

    def prepare(self, lanes: Lanes) -> None:
        with _Channel(lanes.address) as opened:
            for name in lanes.names():
                opened.call(
                    opened.channel.queue_declare,
                    queue=name,
                    durable=True,
                    arguments={"x-queue-type": "quorum"},
                )

    def remove(self, lanes: Lanes) -> None:
        with _Channel(lanes.address) as opened:
            for name in lanes.names():
                opened.call(opened.channel.queue_delete, queue=name)

    def sender(self, lanes: Lanes) -> Sender:
        built = library("amqp")
        return NativeSender(built, lanes, _WINDOW) if built else _Sender(lanes)

    def receiver(self, lanes: Lanes, number: int) -> Receiver:
        built = library("amqp")
        return NativeReceiver(built, lanes, number) if built else _Receiver(lanes, number)


class _Channel:
    """A connection with one channel, on a loop of its own, for callers who have none."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._loop = uvloop.new_event_loop()
        self.failed: str | None = None
        opened = self._loop.create_future()
        self._connection = AsyncioConnection(
            pika.ConnectionParameters(host, int(port), heartbeat=0, blocked_connection_timeout=60),
            on_open_callback=lambda c: c.channel(on_open_callback=opened.set_result),
            on_open_error_callback=lambda _, error: opened.set_exception(BenchFailed(str(error))),
            on_close_callback=self._closed,
            custom_ioloop=self._loop,
        )
        self.channel: Any = self._wait(opened)
        self.channel.add_on_close_callback(self._closed)

    def call(self, method: Callable[..., object], **words: Any) -> Any:
        """A method that answers by a callback."""
        answer = self._loop.create_future()
        method(callback=answer.set_result, **words)
        return self._wait(answer)

    def run_until(self, done: Callable[[], bool], wait_s: float) -> None:
        """Let the connection work, for so long at most."""
        self._loop.run_until_complete(self._turn(done, self._loop.time() + wait_s))
        if self.failed:
            raise BenchFailed(self.failed)

    async def _turn(self, done: Callable[[], bool], deadline: float) -> None:
        # What is waited for comes in callbacks of many kinds; the loop has nothing else to do.
        while not done() and not self.failed and (left := deadline - self._loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(0.0005, left))

    def _wait(self, answer: asyncio.Future[Any]) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(answer, _WAIT_S))

    def _closed(self, _: object, reason: object) -> None:
        self.failed = self.failed or str(reason)

    def close(self) -> None:
        if self._connection.is_open:
            self._connection.close()
        self._loop.run_until_complete(
            self._turn(lambda: bool(self._connection.is_closed), self._loop.time() + 5)
        )
        # The loop closes a socket some turns after it has said so.
        self._loop.run_until_complete(asyncio.sleep(0.001))
        self._loop.close()

    def __enter__(self) -> _Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Sender:
    def __init__(self, lanes: Lanes) -> None:
        self._opened = _Channel(lanes.address)
        self._queues = lanes.names()
        self._next = 1
        self._pending: dict[int, None] = {}
        self._refused = 0
        self._lasting = pika.BasicProperties(delivery_mode=2)
        self._opened.call(self._opened.channel.confirm_delivery, ack_nack_callback=self._settled)

    def send(self, values: Sequence[bytes], lane: int) -> None:
        queue, publish = self._queues[lane], self._opened.channel.basic_publish
        for value in values:
            publish("", queue, value, self._lasting)
            self._pending[self._next] = None
            self._next += 1
        if len(self._pending) >= _WINDOW:
            self._opened.run_until(lambda: len(self._pending) <= _WINDOW // 2, _WAIT_S)

    def _settled(self, frame: Any) -> None:
        method = frame.method
        self._refused += isinstance(method, pika.spec.Basic.Nack)
        if not method.multiple:
            self._pending.pop(method.delivery_tag, None)
            return
        while self._pending and next(iter(self._pending)) <= method.delivery_tag:
            del self._pending[next(iter(self._pending))]

    def rest(self, seconds: float) -> None:
        self._opened.run_until(lambda: False, seconds)

    def flush(self) -> None:
        self._opened.run_until(lambda: not self._pending, _WAIT_S)
        if self._pending or self._refused:
            raise BenchFailed(f"{len(self._pending) + self._refused} were not acknowledged")

    def close(self) -> None:
        self._opened.close()


class _Receiver:
    def __init__(self, lanes: Lanes, number: int) -> None:
        self._opened = _Channel(lanes.address)
        self._values: list[bytes] = []
        self._last = self._acknowledged = 0
        channel, names = self._opened.channel, lanes.names()
        self._opened.call(channel.basic_qos, prefetch_count=_PREFETCH)
        for lane in lanes.of_consumer(number):
            self._opened.call(
                channel.basic_consume, queue=names[lane], on_message_callback=self._take
            )

    def _take(self, _channel: Any, method: Any, _: object, body: bytes) -> None:
        self._values.append(body)
        self._last = method.delivery_tag
        if self._last - self._acknowledged >= _PREFETCH // 4:
            self._acknowledge()

    def _acknowledge(self) -> None:
        if self._last > self._acknowledged:
            self._opened.channel.basic_ack(self._last, multiple=True)
            self._acknowledged = self._last

    def receive(self, wait_s: float) -> list[bytes]:
        self._opened.run_until(lambda: bool(self._values), wait_s)
        self._acknowledge()
        values, self._values = self._values, []
        return values

    def close(self) -> None:
        self._opened.close()
